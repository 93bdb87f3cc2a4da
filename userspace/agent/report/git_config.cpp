#include "agent/report/git_config.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pinfold::report {

namespace {

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_name(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

bool is_space(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

class reader {
public:
    explicit reader(std::string_view text) : text_(text) {}

    std::vector<git_setting> read() {
        if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\n' || is_space(c))
                ++at_;
            else if (c == '#' || c == ';')
                skip_line();
            else if (c == '[' ? !read_section() : !read_setting())
                break;
        }
        return std::move(all_);
    }

private:
    [[nodiscard]] bool is_over() const noexcept { return at_ >= text_.size(); }
    void skip_line() {
        while (!is_over() && text_[at_] != '\n') ++at_;
    }
    void skip_space() {
        while (!is_over() && is_space(text_[at_])) ++at_;
    }

    // [name], [name "sub"], and the old [name.sub]
    bool read_section() {
        ++at_;
        std::string name;
        while (!is_over() && (is_name(text_[at_]) || text_[at_] == '.')) name += lower(text_[at_++]);
        skip_space();
        if (!is_over() && text_[at_] == '"') {
            name += '.';
            ++at_;
            while (!is_over() && text_[at_] != '"' && text_[at_] != '\n') {
                if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
                name += text_[at_++];
            }
            if (is_over() || text_[at_] != '"') return false;
            ++at_;
        }
        if (is_over() || text_[at_] != ']' || name.empty()) return false;
        ++at_;
        section_ = std::move(name);
        return true;
    }

    bool read_setting() {
        std::string name;
        while (!is_over() && is_name(text_[at_])) name += lower(text_[at_++]);
        if (name.empty()) return false;
        skip_space();
        git_setting made{.key = section_ + "." + name, .value = "true"};
        if (!is_over() && text_[at_] == '=') {
            ++at_;
            made.value = read_value();
        } else {
            skip_line();
        }
        all_.push_back(std::move(made));
        return true;
    }

    std::string read_value() {
        skip_space();
        std::string value;
        std::size_t end = 0; // behind the last character that counts
        bool quoted = false;
        for (; !is_over() && text_[at_] != '\n'; ++at_) {
            const char c = text_[at_];
            if (!quoted && (c == '#' || c == ';')) {
                skip_line();
                break;
            }
            if (c == '"') {
                quoted = !quoted;
                end = value.size();
                continue;
            }
            if (c == '\\' && at_ + 1 < text_.size()) {
                const char next = text_[++at_];
                if (next == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
                if (next == '\n' || next == '\r') continue;
                value += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'b' ? '\b' : next;
                end = value.size();
                continue;
            }
            value += c;
            if (quoted || !is_space(c)) end = value.size();
        }
        value.resize(end);
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::string section_;
    std::vector<git_setting> all_;
};

struct rule {
    std::string_view section; // before the first dot
    std::string_view name;    // behind the last one; "*" = any
    const char* danger;
};

constexpr const char *runs = "git runs this program", *leads = "git reads further settings from there",
                     *fetches = "git fetches from there", *helps = "git asks this program for passwords";
constexpr std::array rules{
    rule{"core", "hookspath", "git runs the hooks of this folder"},
    rule{"core", "sshcommand", runs},
    rule{"core", "editor", runs},
    rule{"core", "pager", runs},
    rule{"core", "askpass", helps},
    rule{"core", "gitproxy", runs},
    rule{"core", "alternaterefscommand", runs},
    rule{"core", "attributesfile", "it names drivers for files"},
    rule{"core", "worktree", "git works on that folder"},
    rule{"sequence", "editor", runs},
    rule{"credential", "helper", helps},
    rule{"diff", "external", runs},
    rule{"diff", "command", runs},
    rule{"diff", "textconv", runs},
    rule{"merge", "driver", runs},
    rule{"filter", "clean", runs},
    rule{"filter", "smudge", runs},
    rule{"filter", "process", runs},
    rule{"include", "path", leads},
    rule{"includeif", "path", leads},
    rule{"submodule", "url", fetches},
    rule{"url", "insteadof", "git goes to another address than is written"},
    rule{"url", "pushinsteadof", "git pushes to another address than is written"},
    rule{"remote", "url", fetches},
    rule{"remote", "pushurl", "git pushes to there"},
    rule{"remote", "uploadpack", runs},
    rule{"remote", "receivepack", runs},
    rule{"remote", "vcs", runs},
    rule{"remote", "proxy", "git goes through this proxy"},
    rule{"http", "proxy", "git goes through this proxy"},
    rule{"http", "sslverify", "git may take any certificate"},
    rule{"gpg", "program", runs},
    rule{"gpg", "defaultkeycommand", runs},
    rule{"pager", "*", runs},
    rule{"browser", "cmd", runs},
    rule{"browser", "path", runs},
    rule{"difftool", "cmd", runs},
    rule{"difftool", "path", runs},
    rule{"mergetool", "cmd", runs},
    rule{"mergetool", "path", runs},
    rule{"man", "cmd", runs},
    rule{"man", "path", runs},
    rule{"guitool", "cmd", runs},
    rule{"interactive", "difffilter", runs},
    rule{"uploadpack", "packobjectshook", runs},
    rule{"sendemail", "*", runs},
    rule{"trailer", "command", runs},
    rule{"trailer", "cmd", runs},
    rule{"tar", "command", runs},
    rule{"hook", "command", runs},
    rule{"lfs", "*", "git-lfs goes there, or runs it"},
    rule{"init", "templatedir", "new repositories get the hooks of this folder"},
};

bool is_switch(std::string_view value) {
    const std::string word = lowered(value);
    for (const char* each : {"", "true", "false", "yes", "no", "on", "off", "0", "1"})
        if (word == each) return true;
    return false;
}

} // namespace

std::vector<git_setting> read_git_config(std::string_view text) {
    return reader(text).read();
}

const char* git_danger(const git_setting& what) {
    const std::string section = what.key.substr(0, what.key.find('.'));
    const std::string name = what.key.substr(what.key.rfind('.') + 1);
    if (section == "alias") return what.value.starts_with('!') ? "this alias is a shell command" : nullptr;
    if (section == "core" && name == "fsmonitor")
        return is_switch(what.value) ? nullptr : "git status runs this program";
    if (section == "submodule" && name == "update")
        return what.value.starts_with('!') ? "git submodule update runs this command" : nullptr;
    if ((section == "pager" || section == "http") && name != "proxy" && is_switch(what.value))
        return section == "http" && name == "sslverify" && lowered(what.value) != "true" && what.value != "1"
                   ? "git takes any certificate"
                   : nullptr;
    for (const rule& each : rules)
        if (section == each.section && (each.name == "*" || name == each.name)) return each.danger;
    return nullptr;
}

std::vector<std::string> named_drivers(std::string_view attributes) {
    std::vector<std::string> found;
    while (!attributes.empty()) {
        std::string_view line = attributes.substr(0, attributes.find('\n'));
        attributes.remove_prefix(std::min(attributes.size(), line.size() + 1));
        while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
        while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
        if (line.starts_with('#')) continue;
        for (const std::string_view each : {"filter=", "diff=", "merge="}) {
            std::size_t at = line.find(each);
            if (at == std::string_view::npos || at == 0 || !is_space(line[at - 1])) continue;
            found.emplace_back(line);
            break;
        }
    }
    return found;
}

} // namespace pinfold::report
