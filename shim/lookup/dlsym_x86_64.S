/*
 * dlsym_x86_64.S - dlsym and dlvsym in front of the loader's.
 *
 * The loader answers RTLD_NEXT and RTLD_DEFAULT by the return address it finds on the stack. So for
 * every name that is not the driver's these stubs leave no trace: they jump to the real function,
 * which sees the true caller.
 */
#ifdef __CET__
#include <cet.h>
#endif

.macro LOOKUP symbol, ask
        .text
        .p2align 4
        .globl  \symbol
        .type   \symbol, @function
\symbol:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rcx          /* the caller */
        call    \ask                    /* rax = answer, rdx = where to jump, 0 = return the answer */
        movq    %rdx, %r11
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %r11, %r11
        jz      1f
        jmp     *%r11
1:      ret
        .cfi_endproc
        .size   \symbol, . - \symbol
        .hidden \ask
.endm

        LOOKUP  dlsym, lookup_dlsym
        LOOKUP  dlvsym, lookup_dlvsym

        .section .note.GNU-stack, "", @progbits
