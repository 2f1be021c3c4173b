/*
 * program_static.c - a program without a loader and without a C library, which exits with 7.
 */
#include <sys/syscall.h>

enum { STATUS = 7 };

_Noreturn void _start(void);

_Noreturn void _start(void)
{
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(STATUS));
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_exit_group;
    register long status __asm__("x0") = STATUS;
    __asm__ volatile("svc 0" : : "r"(number), "r"(status));
#endif
    __builtin_unreachable();
}
