#include "agent/proxy/json_rewrite.hpp"

#include "agent/proxy/json_shape.hpp"

#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#elif defined(__ARM_NEON)
#define RAPIDJSON_NEON
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <set>
#include <utility>
#include <vector>

namespace pinfold {

namespace {

using rapidjson::SizeType;
// Not the default flags, whose writer uses vector instructions: in 1.1.0 these take the bytes 0x1a to 0x1f for letters.
using library_writer = rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                                         rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>;

// Most texts need no escape: these are copied as they are, the others are the library's.
class json_writer : public library_writer {
public:
    using library_writer::library_writer;
    bool String(const char* text, SizeType size) {
        if (needs_escape({text, size})) return library_writer::String(text, size);
        Prefix(rapidjson::kStringType);
        char* to = os_->Push(std::size_t{size} + 2);
        *to = '"';
        std::copy_n(text, size, to + 1);
        to[size + 1] = '"';
        return EndValue(true);
    }
    bool Key(const char* text, SizeType size) { return String(text, size); }

private:
    // Without a branch, so that the compiler looks at many bytes together.
    static bool needs_escape(std::string_view text) {
        unsigned found = 0;
        for (const char c : text) found |= static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
        return found != 0;
    }
};

constexpr unsigned reading = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;
constexpr std::size_t few_keys = 16; // so few are compared one by one

// None of them is JSON, and the reader would take some for letters, too, and a zero for the end.
bool has_control_characters(std::string_view text) {
    unsigned found = 0;
    for (const char c : text)
        found |= static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    return found != 0;
}

// To one parser an error, to the next infinite. What is too small is zero to both.
bool is_beyond_double(std::string_view number) {
    double value = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec !=
        std::errc::result_out_of_range)
        return false;
    return std::isinf(std::strtod(std::string(number).c_str(), nullptr));
}

// What was written, not what was read: an escape may stand for half a character.
bool is_utf8(const rapidjson::StringBuffer& text) {
    const std::string_view all(text.GetString(), text.GetSize());
    unsigned char bits = 0;
    for (const char c : all) bits |= static_cast<unsigned char>(c);
    if (bits < 0x80) return true;
    rapidjson::StringStream from(text.GetString()); // ends with a zero, which is no part of a character
    rapidjson::StringBuffer ignored;
    while (from.Tell() < all.size())
        if (!rapidjson::UTF8<>::Validate(from, ignored)) return false;
    return true;
}

// The capitalised names are RapidJSON's handler. Each call says whether to go on. Texts lie in what is read, until its end.
class rewriter {
public:
    rewriter(const json_member& ours, std::size_t size)
        : ours_(ours), made_(nullptr, size + ours.value.size() + 256), out_(made_), left_out_(scratch_) {
        levels_.reserve(8);
        keys_.reserve(32);
    }

    bool Null() {
        return scalar([](json_writer& to) { return to.Null(); });
    }
    bool Bool(bool is) {
        return scalar([is](json_writer& to) { return to.Bool(is); });
    }
    bool RawNumber(const char* text, SizeType size, bool) {
        if (is_beyond_double({text, size})) return stop("it has a number that no double holds");
        return scalar([=](json_writer& to) { return to.RawValue(text, size, rapidjson::kNumberType); });
    }
    bool String(const char* text, SizeType size, bool) {
        if (levels_.size() == 1 && last_key_ == "method") method_.assign(text, size);
        return scalar([=](json_writer& to) { return to.String(text, size); });
    }
    bool StartObject() {
        const bool is_on_path = levels_.empty() || leads_on();
        return open(is_on_path) && to().StartObject();
    }
    bool Key(const char* text, SizeType size, bool) {
        last_key_ = {text, size};
        if (!is_new(last_key_))
            return stop(fmt::format("the key '{}' stands twice in one object", last_key_));
        if (is_on_path(ours_.path.size() + 1) && last_key_ == ours_.key) return leave_out();
        return to().Key(text, size);
    }
    bool EndObject(SizeType) {
        if (is_on_path(ours_.path.size() + 1) && !write_ours()) return false;
        if (is_on_path(ours_.path.size()) && !placed_ && !(write(ours_.path.back()) && write_holder()))
            return false;
        return close(to().EndObject());
    }
    bool StartArray() { return begin_other() && open(false) && to().StartArray(); }
    bool EndArray(SizeType) { return close(to().EndArray()); }
    // Numbers come as they are written.
    static bool Int(int) { return false; }
    static bool Uint(unsigned) { return false; }
    static bool Int64(std::int64_t) { return false; }
    static bool Uint64(std::uint64_t) { return false; }
    static bool Double(double) { return false; }

    [[nodiscard]] const std::optional<std::string>& wrong() const { return wrong_; }
    // `into`: what was read, whose room is enough as a rule.
    [[nodiscard]] std::expected<rewritten_json, std::string> take(std::string into) {
        if (has_other_bytes_ || !is_utf8(made_)) return std::unexpected("it is no UTF-8");
        into.assign(made_.GetString(), made_.GetSize());
        return rewritten_json{.text = std::move(into), .method = std::move(method_), .placed = placed_};
    }

private:
    struct level { // an object or array that is open
        std::size_t first_key;
        bool is_on_path;
        std::set<std::string_view> many; // a tree: who chooses the keys makes a hash table slow
    };

    bool stop(std::string why) {
        wrong_ = std::move(why);
        return false;
    }
    // Whether the innermost level is the object that the first `depth` - 1 keys of the path lead to.
    [[nodiscard]] bool is_on_path(std::size_t depth) const {
        return levels_.size() == depth && depth > 0 && levels_.back().is_on_path;
    }
    // Whether the value of the last key lies on the path, too.
    [[nodiscard]] bool leads_on() const {
        const std::size_t depth = levels_.size();
        return depth <= ours_.path.size() && is_on_path(depth) && last_key_ == ours_.path[depth - 1];
    }
    bool is_new(std::string_view key) {
        level& at = levels_.back();
        const auto known = std::span(keys_).subspan(at.first_key);
        if (known.size() < few_keys) {
            if (std::ranges::find(known, key) != known.end()) return false;
            keys_.push_back(key);
            return true;
        }
        if (at.many.empty()) at.many.insert(known.begin(), known.end());
        return at.many.insert(key).second;
    }

    // The value of the last key is judged like any other, and does not go on.
    bool leave_out() {
        left_out_since_ = levels_.size();
        scratch_.Clear();
        left_out_.Reset(scratch_);
        return left_out_.StartObject() &&
               left_out_.String(last_key_.data(), static_cast<SizeType>(last_key_.size()));
    }
    void end_value() {
        if (left_out_since_ != levels_.size()) return;
        left_out_since_.reset();
        has_other_bytes_ = has_other_bytes_ || !is_utf8(scratch_);
    }
    json_writer& to() { return left_out_since_ ? left_out_ : out_; }

    bool write(std::string_view text) { return out_.String(text.data(), static_cast<SizeType>(text.size())); }
    bool write_ours() {
        placed_ = true;
        return write(ours_.key) && write(ours_.value);
    }
    bool write_holder() { return out_.StartObject() && write_ours() && out_.EndObject(); }

    // A value that is no object. Where ours should be held, an object stands in its place.
    bool begin_other() {
        if (levels_.empty()) return stop("it is no JSON object");
        if (!leads_on() || levels_.size() != ours_.path.size()) return true;
        return write_holder() && leave_out();
    }
    bool count() { return ++values_ <= most_json_values || stop("it has more than 200,000 values"); }
    template <typename Write>
    bool scalar(Write write_it) {
        if (!count() || !begin_other() || !write_it(to())) return false;
        end_value();
        return true;
    }
    bool open(bool is_on_path) {
        if (!count()) return false;
        if (levels_.size() >= deepest_json) return stop("it is nested more than 64 deep");
        levels_.push_back({.first_key = keys_.size(), .is_on_path = is_on_path, .many = {}});
        return true;
    }
    bool close(bool is_written) {
        keys_.resize(levels_.back().first_key);
        levels_.pop_back();
        end_value();
        return is_written;
    }

    const json_member& ours_;
    rapidjson::StringBuffer made_, scratch_;
    json_writer out_, left_out_;
    std::optional<std::size_t> left_out_since_; // the depth at which the value stands that does not go on
    std::vector<level> levels_;
    std::vector<std::string_view> keys_; // of the levels that are open, one after another
    std::string_view last_key_;
    std::size_t values_ = 0;
    std::string method_;
    bool placed_ = false, has_other_bytes_ = false;
    std::optional<std::string> wrong_;
};

} // namespace

std::expected<rewritten_json, std::string> rewrite_json(std::string text, const json_member& ours) {
    if (has_control_characters(text)) return std::unexpected("it is no JSON (a control character)");
    rewriter to(ours, text.size());
    text.append(16, '\0'); // sixteen bytes are looked at together, the end among them
    rapidjson::InsituStringStream from(text.data());
    rapidjson::Reader reader;
    const rapidjson::ParseResult done = reader.Parse<reading>(from, to);
    if (const std::optional<std::string>& wrong = to.wrong()) return std::unexpected(*wrong);
    if (done.IsError()) return std::unexpected(fmt::format("it is no JSON (byte {})", done.Offset()));
    return to.take(std::move(text));
}

} // namespace pinfold
