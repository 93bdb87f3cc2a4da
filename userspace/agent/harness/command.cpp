// Any program as a harness: each message starts it once, with the message as its input; what it prints is the answer.
#include "agent/harness/json_text.hpp"
#include "agent/harness/kinds.hpp"

namespace pinfold::harness {

namespace {

json spoken(std::string text) {
    return {
        {"type", "assistant"},
        {"message",
         {{"role", "assistant"}, {"content", json::array({{{"type", "text"}, {"text", std::move(text)}}})}}}};
}

class command_dialogue final : public dialogue {
public:
    [[nodiscard]] std::string opening() override { return {}; }
    [[nodiscard]] std::vector<news> take(std::string_view line) override {
        std::vector<news> list;
        list.emplace_back(said{.json = json_text(spoken(std::string(line))), .text = std::string(line)});
        return list;
    }
    [[nodiscard]] std::string message(std::string_view text) override { return std::string(text) + "\n"; }
    [[nodiscard]] std::optional<std::string> reply(const asks&, const answer&) override { return {}; }
    [[nodiscard]] std::optional<std::string> interrupt() override { return std::nullopt; }
};

class command_kind final : public kind {
public:
    [[nodiscard]] const char* name() const override { return "command"; }
    [[nodiscard]] const char* title() const override { return "Command"; }
    [[nodiscard]] capabilities can() const override { return {}; }
    [[nodiscard]] std::vector<std::string> arguments(const start& how) const override { return how.command; }
    [[nodiscard]] std::unique_ptr<dialogue> converse() const override {
        return std::make_unique<command_dialogue>();
    }
    [[nodiscard]] bool takes_more() const override { return false; }
    [[nodiscard]] bool one_turn() const override { return true; }
};

} // namespace

const kind& command() {
    static const command_kind one;
    return one;
}

} // namespace pinfold::harness
