/*
 * thunk_x86_64.S - drain thunks: save what may carry arguments, drain, restore, tail-jump to the
 * driver. Needs a name and no prototype. Stack arguments stay where they are.
 *
 * API_DRAIN rows get a strong symbol. API_WRAP rows get a weak one: it serves until, and wherever
 * cuda.h is too old for, the typed wrapper of the same name. Functions that the table does not have
 * share a pool of them (unknown.c).
 */
#include "shim/lookup/unknown.h"

#ifdef __CET__
#include <cet.h>
#endif

        .text
        .p2align 4
        .type   thunk, @function
thunk:                                  /* %r11d = row */
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp              /* 64 for integers, 128 for vectors; stays 16-aligned */
        movq    %rdi, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movq    %r10, 48(%rsp)
        movq    %rax, 56(%rsp)          /* %al = number of vector registers of a variadic call */
        movups  %xmm0, 64(%rsp)
        movups  %xmm1, 80(%rsp)
        movups  %xmm2, 96(%rsp)
        movups  %xmm3, 112(%rsp)
        movups  %xmm4, 128(%rsp)
        movups  %xmm5, 144(%rsp)
        movups  %xmm6, 160(%rsp)
        movups  %xmm7, 176(%rsp)
        movl    %r11d, %edi
        call    thunk_enter
        movq    %rax, %r11
        movq    (%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movq    48(%rsp), %r10
        movq    56(%rsp), %rax
        movups  64(%rsp), %xmm0
        movups  80(%rsp), %xmm1
        movups  96(%rsp), %xmm2
        movups  112(%rsp), %xmm3
        movups  128(%rsp), %xmm4
        movups  144(%rsp), %xmm5
        movups  160(%rsp), %xmm6
        movups  176(%rsp), %xmm7
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        jmp     *%r11
        .cfi_endproc
        .size   thunk, . - thunk

        .hidden thunk_enter

.macro THUNK symbol, bind
        .p2align 4
        \bind   \symbol
        .type   \symbol, @function
\symbol:
        .cfi_startproc
        endbr64
        movl    $row, %r11d
        jmp     thunk
        .cfi_endproc
        .size   \symbol, . - \symbol
        .set    row, row + 1
.endm

        .set    row, 0
#define API_PASS(symbol, ...) .set row, row + 1
#define API_DRAIN(symbol, ...) THUNK symbol, .globl
#define API_WRAP(symbol, ...) THUNK symbol, .weak
#include "shim/lookup/api.def"

/* The pool of unknown.c: rows behind the table's, UNKNOWN_THUNK_BYTES each. */
        .p2align 4
        .globl  unknown_thunks
        .hidden unknown_thunks
unknown_thunks:
        .rept   UNKNOWN_THUNKS
        .cfi_startproc
        endbr64
        movl    $row, %r11d
        jmp     thunk
        .cfi_endproc
        .p2align 4
        .set    row, row + 1
        .endr

        .section .note.GNU-stack, "", @progbits
