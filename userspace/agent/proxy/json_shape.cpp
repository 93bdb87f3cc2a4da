#include "agent/proxy/json_shape.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace pinfold {

namespace {

using nlohmann::json;

// The names are nlohmann's SAX interface. Each call says whether to go on.
class shape_watcher {
public:
    explicit shape_watcher(json* into) : into_(into) {}

    bool null() { return value(nullptr); }
    bool boolean(bool is) { return value(is); }
    bool number_integer(json::number_integer_t number) { return value(number); }
    bool number_unsigned(json::number_unsigned_t number) { return value(number); }
    bool number_float(json::number_float_t number, const std::string&) { return value(number); }
    bool string(std::string& text) { return value(std::move(text)); }
    bool binary(json::binary_t&) { return stop("it is no JSON"); } // of other formats
    bool start_object(std::size_t) { return open(json::value_t::object); }
    bool end_object() { return close(); }
    bool start_array(std::size_t) { return open(json::value_t::array); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        level& at = levels_.back();
        const bool is_new = into_ != nullptr ? !at.built->contains(name) : at.keys.insert(name).second;
        if (!is_new) return stop("the key '" + name + "' stands twice in one object");
        if (into_ != nullptr) slot_ = &(*at.built)[std::move(name)];
        return true;
    }
    bool parse_error(std::size_t at, const std::string&, const json::exception&) {
        return stop("it is no JSON (byte " + std::to_string(at) + ")");
    }

    [[nodiscard]] const std::optional<std::string>& wrong() const noexcept { return wrong_; }

private:
    struct level { // an object or array that is open
        json* built = nullptr;
        std::set<std::string>
            keys; // where nothing is built; a tree: who chooses the keys makes a hash table slow
    };

    bool stop(std::string why) {
        if (!wrong_) wrong_ = std::move(why);
        return false;
    }
    bool count() { return ++values_ <= most_json_values || stop("it has more than 200,000 values"); }
    // Where a value goes: the whole, behind an array's last, or to the key that was just read.
    template <typename Value>
    json* place(Value&& what) {
        if (levels_.empty()) {
            *into_ = std::forward<Value>(what);
            return into_;
        }
        json& holder = *levels_.back().built;
        if (holder.is_array()) return &holder.emplace_back(std::forward<Value>(what));
        *slot_ = std::forward<Value>(what);
        return slot_;
    }
    template <typename Value>
    bool value(Value&& what) {
        if (!count()) return false;
        if (into_ != nullptr) place(std::forward<Value>(what));
        return true;
    }
    bool open(json::value_t kind) {
        if (!count()) return false;
        if (levels_.size() >= deepest_json) return stop("it is nested more than 64 deep");
        levels_.push_back({.built = into_ != nullptr ? place(json(kind)) : nullptr, .keys = {}});
        return true;
    }
    bool close() {
        levels_.pop_back();
        return true;
    }

    json* into_; // null: it is judged, and nothing is built
    json* slot_ = nullptr;
    std::vector<level> levels_;
    std::size_t values_ = 0;
    std::optional<std::string> wrong_;
};

std::optional<std::string> look_through(std::string_view text, json* into) {
    shape_watcher watcher(into);
    if (json::sax_parse(text.data(), text.data() + text.size(), &watcher)) return std::nullopt;
    return watcher.wrong().value_or("it is no JSON");
}

} // namespace

std::optional<std::string> judge_json_shape(std::string_view text) {
    return look_through(text, nullptr);
}

std::optional<std::string> read_json_strictly(std::string_view text, json& into) {
    return look_through(text, &into);
}

} // namespace pinfold
