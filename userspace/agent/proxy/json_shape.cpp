#include "agent/proxy/json_shape.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pinfold {

namespace {

constexpr std::size_t deepest = 64, most_values = 200'000;

// The names are nlohmann's SAX interface. Each call says whether to go on.
class shape_watcher {
public:
    bool null() { return value(); }
    bool boolean(bool) { return value(); }
    bool number_integer(nlohmann::json::number_integer_t) { return value(); }
    bool number_unsigned(nlohmann::json::number_unsigned_t) { return value(); }
    bool number_float(nlohmann::json::number_float_t, const std::string&) { return value(); }
    bool string(std::string&) { return value(); }
    bool binary(nlohmann::json::binary_t&) { return value(); }
    bool start_object(std::size_t) {
        keys_.emplace_back();
        return value() && is_flat();
    }
    bool end_object() {
        keys_.pop_back();
        return true;
    }
    bool start_array(std::size_t) {
        keys_.emplace_back();
        return value() && is_flat();
    }
    bool end_array() {
        keys_.pop_back();
        return true;
    }
    bool key(std::string& name) {
        return keys_.back().insert(name).second || stop("the key '" + name + "' stands twice in one object");
    }
    bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) {
        return stop("it is no JSON (byte " + std::to_string(at) + ")");
    }

    [[nodiscard]] const std::optional<std::string>& wrong() const noexcept { return wrong_; }

private:
    bool stop(std::string why) {
        if (!wrong_) wrong_ = std::move(why);
        return false;
    }
    bool value() { return ++values_ <= most_values || stop("it has more than 200,000 values"); }
    bool is_flat() { return keys_.size() <= deepest || stop("it is nested more than 64 deep"); }

    std::vector<std::unordered_set<std::string>> keys_; // of the objects that are open; of an array none
    std::size_t values_ = 0;
    std::optional<std::string> wrong_;
};

} // namespace

std::optional<std::string> judge_json_shape(std::string_view text) {
    shape_watcher watcher;
    if (nlohmann::json::sax_parse(text, &watcher)) return std::nullopt;
    return watcher.wrong().value_or("it is no JSON");
}

} // namespace pinfold
