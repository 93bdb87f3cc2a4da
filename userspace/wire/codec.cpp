#include "wire/codec.hpp"

#include <concepts>
#include <cstring>
#include <type_traits>

namespace pinfold::wire {

namespace {

// The bounds a decoder allocates by. A message is at most largest_message bytes, so these only cut absurd counts early.
constexpr std::size_t most_elements = 8192;

class writer {
public:
    static constexpr bool writing = true;

    template <std::unsigned_integral T>
    void number(T& value) {
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    void text(std::string& value) {
        auto size = static_cast<std::uint32_t>(value.size());
        number(size);
        raw(std::as_bytes(std::span(value)));
    }
    std::size_t count(std::size_t size) {
        auto elements = static_cast<std::uint32_t>(size);
        number(elements);
        return size;
    }
    void raw(std::span<const std::byte> from) { bytes_.insert(bytes_.end(), from.begin(), from.end()); }
    void fail(const char*) {} // what is written was valid
    [[nodiscard]] bool failed() const { return false; }

    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

class reader {
public:
    static constexpr bool writing = false;

    explicit reader(std::span<const std::byte> bytes) : left_(bytes) {}

    template <std::unsigned_integral T>
    void number(T& value) {
        value = 0;
        const std::span<const std::byte> from = take(sizeof(T));
        for (std::size_t i = 0; i < from.size(); ++i)
            value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(from[i]) << (8 * i)));
    }
    void text(std::string& value) {
        std::uint32_t size = 0;
        number(size);
        const std::span<const std::byte> from = take(size);
        value.assign(reinterpret_cast<const char*>(from.data()), from.size());
    }
    std::size_t count(std::size_t) {
        std::uint32_t elements = 0;
        number(elements);
        if (elements > most_elements || elements > left_.size()) { // each element takes a byte at least
            fail("a list is longer than its message");
            return 0;
        }
        return elements;
    }
    std::span<const std::byte> take(std::size_t size) {
        if (size > left_.size()) {
            fail("the message ends too early");
            return {};
        }
        const std::span<const std::byte> taken = left_.first(size);
        left_ = left_.subspan(size);
        return taken;
    }
    void fail(const char* why) {
        if (why_ == nullptr) why_ = why;
        left_ = {};
    }
    [[nodiscard]] bool failed() const { return why_ != nullptr; }
    [[nodiscard]] const char* why() const { return why_; }
    [[nodiscard]] bool at_end() const { return left_.empty(); }

private:
    std::span<const std::byte> left_;
    const char* why_ = nullptr;
};

// ---- one description for each type, used both ways ----

template <typename A>
void describe(A& archive, std::unsigned_integral auto& value) {
    archive.number(value);
}
template <typename A>
void describe(A& archive, bool& value) {
    auto byte = static_cast<std::uint8_t>(value);
    archive.number(byte);
    if (byte > 1) archive.fail("a flag is neither 0 nor 1");
    value = byte == 1;
}
template <typename A>
void describe(A& archive, std::int32_t& value) {
    auto bits = static_cast<std::uint32_t>(value);
    archive.number(bits);
    value = static_cast<std::int32_t>(bits);
}
template <typename A>
void describe(A& archive, std::string& value) {
    archive.text(value);
}
template <typename A>
void describe(A& archive, std::filesystem::path& value) {
    std::string text = value.native();
    archive.text(text);
    if constexpr (!A::writing) value = std::move(text);
}
template <typename A>
void describe(A& archive, cage_mode& value) {
    auto number = std::to_underlying(value);
    archive.number(number);
    if (number > std::to_underlying(cage_mode::caged))
        archive.fail("a mode is neither sealed nor caged");
    else
        value = cage_mode{number};
}

template <typename A, std::size_t Size>
void describe(A& archive, std::array<std::uint8_t, Size>& bytes) {
    for (std::uint8_t& byte : bytes) archive.number(byte);
}
template <typename A, typename T>
void describe(A& archive, std::vector<T>& list) {
    const std::size_t size = archive.count(list.size());
    if constexpr (!A::writing) list.clear();
    for (std::size_t i = 0; i < size && !archive.failed(); ++i) {
        if constexpr (!A::writing) list.emplace_back();
        describe(archive, list[i]);
    }
}
template <typename A, typename T>
void describe(A& archive, std::optional<T>& value) {
    bool present = value.has_value();
    describe(archive, present);
    if constexpr (!A::writing) {
        if (present)
            value.emplace();
        else
            value.reset();
    }
    if (value) describe(archive, *value);
}

template <typename A, typename... Fields>
void all(A& archive, Fields&... fields) {
    (describe(archive, fields), ...);
}

template <typename A>
void describe(A& archive, limits_spec& v) {
    all(archive, v.memory_bytes, v.swap_bytes, v.cpu_percent, v.processes);
}
template <typename A>
void describe(A& archive, terminal_size& v) {
    all(archive, v.rows, v.columns);
}
template <typename A>
void describe(A& archive, command_spec& v) {
    all(archive, v.argv, v.environment, v.directory, v.terminal);
}
template <typename A>
void describe(A& archive, bind_spec& v) {
    all(archive, v.source, v.target, v.writable);
}
template <typename A>
void describe(A& archive, cage_spec& v) {
    all(archive, v.name, v.mode, v.project, v.image, v.limits, v.command, v.binds, v.search_domains,
        v.keep_files);
}
template <typename A>
void describe(A& archive, cage_state& v) {
    all(archive, v.cage, v.name, v.owner, v.mode, v.state, v.project, v.image, v.limits, v.first_pid,
        v.id_base, v.started_unix, v.memory_bytes, v.processes, v.adopted, v.notes);
}
template <typename A>
void describe(A& archive, fact& v) {
    all(archive, v.name, v.value, v.good);
}
template <typename A>
void describe(A& archive, pinfold_denial& v) {
    all(archive, v.time_ns, v.cage, v.pid, v.act, v.rule, v.family, v.type, v.protocol, v.port);
    for (auto& byte : v.address) archive.number(byte);
    for (char& letter : v.comm) {
        auto byte = static_cast<std::uint8_t>(letter);
        archive.number(byte);
        letter = static_cast<char>(byte);
    }
}

template <typename A>
void describe(A& archive, hello& v) {
    all(archive, v.version, v.denials);
}
template <typename A>
void describe(A& archive, make& v) {
    all(archive, v.spec);
}
template <typename A>
void describe(A& archive, start& v) {
    all(archive, v.cage);
}
template <typename A>
void describe(A& archive, exec& v) {
    all(archive, v.cage, v.command);
}
template <typename A>
void describe(A& archive, signal_process& v) {
    all(archive, v.cage, v.process, v.signal);
}
template <typename A>
void describe(A& archive, set_limits& v) {
    all(archive, v.cage, v.limits);
}
template <typename A>
void describe(A&, list&) {}
template <typename A>
void describe(A& archive, remove_cage& v) {
    all(archive, v.name);
}
template <typename A>
void describe(A& archive, plan_request& v) {
    all(archive, v.spec);
}
template <typename A>
void describe(A& archive, probe& v) {
    all(archive, v.mode, v.rows);
}
template <typename A>
void describe(A&, facts_request&) {}
template <typename A>
void describe(A& archive, claim& v) {
    all(archive, v.cage);
}
template <typename A>
void describe(A& archive, explain& v) {
    all(archive, v.cage, v.mode, v.family, v.protocol, v.port, v.address);
}
template <typename A>
void describe(A& archive, explained& v) {
    all(archive, v.mode, v.rule, v.guarded, v.prefix_family, v.prefix_length, v.prefix);
}
template <typename A>
void describe(A&, ok&) {}
template <typename A>
void describe(A& archive, failed& v) {
    all(archive, v.text, v.exit_code);
}
template <typename A>
void describe(A& archive, made& v) {
    all(archive, v.cage, v.terminal, v.notes);
}
template <typename A>
void describe(A& archive, entered& v) {
    all(archive, v.process, v.terminal);
}
template <typename A>
void describe(A& archive, cages& v) {
    all(archive, v.list);
}
template <typename A>
void describe(A& archive, plan_text& v) {
    all(archive, v.steps);
}
template <typename A>
void describe(A& archive, facts& v) {
    all(archive, v.list);
}
template <typename A>
void describe(A& archive, ended& v) {
    all(archive, v.cage, v.process, v.status, v.memory_kill, v.memory_peak, v.memory_limit, v.memory_kills,
        v.memory_victim);
}
template <typename A>
void describe(A& archive, denials& v) {
    all(archive, v.list, v.lost);
}

// A message's number on the wire is its place in the variant: both sides are built from one source.
template <std::size_t Index = 0>
bool read_body(std::size_t kind, reader& from, body& into) {
    if constexpr (Index < std::variant_size_v<body>) {
        if (kind != Index) return read_body<Index + 1>(kind, from, into);
        describe(from, into.emplace<Index>());
        return true;
    } else {
        return false;
    }
}

} // namespace

std::vector<std::byte> encode(const message& from) {
    writer into;
    auto kind = static_cast<std::uint32_t>(from.body.index());
    std::uint32_t number = from.number;
    all(into, kind, number);
    body copy = from.body; // the description takes references that a reader fills
    std::visit([&](auto& what) { describe(into, what); }, copy);
    std::vector<std::byte> bytes = into.take();
    if (bytes.size() > largest_message)
        fail("a message to the other process has {} bytes, at most {} are sent: shorten the command line or "
             "the environment",
             bytes.size(), largest_message);
    return bytes;
}

std::expected<message, problem> decode(std::span<const std::byte> bytes) {
    if (bytes.size() > largest_message)
        return std::unexpected(problem{"message", "is longer than is ever sent"});
    reader from(bytes);
    message into;
    std::uint32_t kind = 0;
    all(from, kind, into.number);
    if (from.failed() || !read_body(kind, from, into.body))
        return std::unexpected(problem{"message", "is of no known kind"});
    if (from.failed()) return std::unexpected(problem{"message", from.why()});
    if (!from.at_end()) return std::unexpected(problem{"message", "has bytes after its end"});
    return into;
}

} // namespace pinfold::wire
