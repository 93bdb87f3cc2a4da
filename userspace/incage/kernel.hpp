// The system calls pinfold-init makes, and its first instruction, without a C library.
//
// glibc's start-up touches 12 pages of its own and costs a quarter of a millisecond at every start and end of a cage;
// this way process 1 is one page of code and two of stack.
#pragma once

#include <csignal>
#include <cstddef>
#include <ctime>
#include <sys/syscall.h>
#include <sys/types.h>

namespace pinfold::kernel {

#if defined(__x86_64__)
// The result, or -errno.
inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
    register long fourth asm("r10") = d;
    register long fifth asm("r8") = e;
    long result = number;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                 : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
    register long which asm("x8") = number;
    register long first asm("x0") = a;
    register long second asm("x1") = b;
    register long third asm("x2") = c;
    register long fourth asm("x3") = d;
    register long fifth asm("x4") = e;
    asm volatile("svc #0"
                 : "+r"(first)
                 : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                 : "memory");
    return first;
}
#else
#error "pinfold-init needs the system call convention of this architecture"
#endif

inline long address(const void* of) {
    return reinterpret_cast<long>(of);
}

// A set of signals as the kernel has it: bit N-1 for signal N.
using signal_set = unsigned long;
inline constexpr std::size_t signal_set_size = sizeof(signal_set);
constexpr signal_set set_of(int signal) {
    return 1UL << (signal - 1);
}

[[noreturn]] inline void exit(int code) {
    for (;;) call(SYS_exit_group, code);
}

// The process number reaped, 0 where nobody has ended, or -errno.
inline long wait_any(int& status, int options) {
    return call(SYS_wait4, -1, address(&status), options, 0);
}

inline long kill(long pid, int signal) {
    return call(SYS_kill, pid, signal);
}

// An ignored signal stays ignored across exec; all zero is the default action.
inline void restore_default(int signal) {
    constexpr long action[4] = {}; // handler, flags, restorer, mask
    call(SYS_rt_sigaction, signal, address(action), 0, signal_set_size);
}

inline void block(signal_set signals) {
    call(SYS_rt_sigprocmask, SIG_SETMASK, address(&signals), 0, signal_set_size);
}

// The signal, or -errno; waits without end where `longest` is null.
inline long wait_for_signal(signal_set signals, siginfo_t* about, const timespec* longest) {
    return call(SYS_rt_sigtimedwait, address(&signals), address(about), address(longest), signal_set_size);
}

} // namespace pinfold::kernel

// Calls run(argc, argv), which does not return: the kernel puts argc at the top of the stack, argv right above it.
#if defined(__x86_64__)
asm(".globl _start\n"
    "_start:\n"
    "    xor %ebp, %ebp\n"
    "    mov (%rsp), %rdi\n"
    "    lea 8(%rsp), %rsi\n"
    "    and $-16, %rsp\n"
    "    call run\n");
#else
asm(".globl _start\n"
    "_start:\n"
    "    mov x29, #0\n"
    "    mov x30, #0\n"
    "    ldr x0, [sp]\n"
    "    add x1, sp, #8\n"
    "    bl run\n");
#endif
