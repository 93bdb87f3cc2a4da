#include "cage/syscalls.hpp"

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "cage/syscall_list.hpp"
#include "spec/cage_spec.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <linux/seccomp.h>
#include <memory>
#include <optional>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace pinfold {
namespace {

using namespace syscall_list;

using program = std::vector<sock_filter>;

struct context_deleter {
    void operator()(void* context) const noexcept { seccomp_release(context); }
};
using context = std::unique_ptr<void, context_deleter>;

// Nothing where this architecture has no such call (open, stat, mknod on arm64).
std::optional<int> number_of(std::string_view name) {
    const newer_call* newer = std::ranges::find(newer_calls, name, &newer_call::name);
    if (newer != std::ranges::end(newer_calls)) return newer->number;
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number < 0) return std::nullopt;
    return number;
}

std::uint32_t action(int error) {
    return error == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

context new_context() {
    context made(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
    if (!made) fail("make a seccomp filter: libseccomp refused; the machine may be out of memory");
    // Foreign ABIs: i386 by int 0x80, and x32, whose numbers carry bit 30. A kernel built without them says ENOSYS too;
    // killing, libseccomp's own choice, would take down programs that only ask.
    check_negative(seccomp_attr_set(made.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)),
                   "refuse foreign system call ABIs in a seccomp filter");
    // A binary tree in place of one comparison after the other.
    check_negative(seccomp_attr_set(made.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2),
                   "have a seccomp filter made as a tree");
    return made;
}

void add(const context& into, std::span<const std::string_view> names, int error) {
    const std::uint32_t what = error == 0 ? SCMP_ACT_ALLOW
                                          : SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error));
    for (const std::string_view name : names) {
        const std::optional<int> number = number_of(name);
        if (!number) continue;
        check_negative(seccomp_rule_add_array(into.get(), what, *number, 0, nullptr),
                       "add system call {} to a seccomp filter", name);
    }
}

bool is_judged(std::span<const judged_call> calls, std::string_view name) {
    return std::ranges::find(calls, name, &judged_call::name) != calls.end();
}

program exported(const context& from) {
    const unique_fd file(
        check(::memfd_create("filter", MFD_CLOEXEC), "make a memory file for a seccomp filter"));
    check_negative(seccomp_export_bpf(from.get(), file.get()), "export a seccomp filter");
    struct stat status{};
    check(::fstat(file.get(), &status), "read the size of a seccomp filter");
    const auto size = static_cast<std::size_t>(status.st_size);
    program code(size / sizeof(sock_filter));
    const ssize_t got = check(::pread(file.get(), code.data(), size, 0), "read a seccomp filter");
    if (static_cast<std::size_t>(got) != size || code.empty()) fail("read a seccomp filter: it is cut short");
    return code;
}

// Everything that is decided by its number alone.
program by_number(cage_mode mode) {
    const context rules = new_context();
    add(rules, allowed, 0);
    add(rules, not_permitted, EPERM);
    if (mode == cage_mode::caged) {
        add(rules, for_namespaces, 0);
        add(rules, clone_without_visible_flags, 0);
    } else {
        for (const std::string_view name : for_namespaces)
            if (!is_judged(sealed_judged, name)) add(rules, std::span(&name, 1), EPERM);
        add(rules, new_mount_calls, EPERM);
    }
    return exported(rules);
}

// Where the low 32 bits of an argument lie in seccomp_data.
std::uint32_t low_word(std::uint8_t argument) {
    const std::size_t at = offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t);
    return static_cast<std::uint32_t>(
        std::endian::native == std::endian::little ? at : at + sizeof(std::uint32_t));
}

sock_filter statement(unsigned code, std::uint32_t operand) {
    return {static_cast<std::uint16_t>(code), 0, 0, operand};
}

// Goes on with the next instruction where the test holds, else leaves out `skip`.
sock_filter test(unsigned code, std::uint32_t operand, std::size_t skip) {
    return {static_cast<std::uint16_t>(BPF_JMP | BPF_K | code), 0, static_cast<std::uint8_t>(skip), operand};
}

void append(program& code, const argument_rule& rule) {
    code.push_back(statement(BPF_LD | BPF_W | BPF_ABS, low_word(rule.argument)));
    if (rule.test == argument_rule::test::any_bit) {
        code.push_back(test(BPF_JSET, rule.mask, 1));
    } else {
        if (rule.mask != all_bits) code.push_back(statement(BPF_ALU | BPF_AND | BPF_K, rule.mask));
        code.push_back(test(BPF_JEQ, rule.value, 1));
    }
    code.push_back(statement(BPF_RET | BPF_K, action(rule.error)));
}

void append(program& code, const judged_call& call) {
    const std::optional<int> number = number_of(call.name);
    if (!number) return;
    program body;
    for (const argument_rule& rule : call.rules) append(body, rule);
    body.push_back(statement(BPF_RET | BPF_K, action(call.otherwise)));
    if (body.size() > 255) fail("compile the rules for {}: too many for one jump", call.name);
    code.push_back(test(BPF_JEQ, static_cast<std::uint32_t>(*number), body.size()));
    code.insert(code.end(), body.begin(), body.end());
}

// libseccomp cannot say "these values, and otherwise that answer" (an unconditional rule replaces the conditional
// ones), nor anything but equality under a mask. So these few calls are judged ahead of its program; all jumps are
// relative, so it follows unchanged, and what is of another ABI goes straight to it.
program by_arguments(cage_mode mode) {
    program calls;
    for (const judged_call& call : judged) append(calls, call);
    if (mode != cage_mode::caged)
        for (const judged_call& call : sealed_judged) append(calls, call);

    program code{
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
        {BPF_JMP | BPF_K | BPF_JEQ, 1, 0, seccomp_arch_native()},
        statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(calls.size() + 1)),
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    };
    code.insert(code.end(), calls.begin(), calls.end());
    return code;
}

} // namespace

std::vector<sock_filter> compile_filter(cage_mode mode) {
    program code = by_arguments(mode);
    const program rest = by_number(mode);
    code.insert(code.end(), rest.begin(), rest.end());
    if (code.size() > BPF_MAXINSNS)
        fail("compile a seccomp filter: {} instructions are too many", code.size());
    return code;
}

} // namespace pinfold
