/*
 * thunk_aarch64.S - drain thunks: save what may carry arguments, drain, restore, tail-jump to the
 * driver. Needs a name and no prototype. Stack arguments stay where they are.
 *
 * API_DRAIN rows get a strong symbol. API_WRAP rows get a weak one: it serves until, and wherever
 * cuda.h is too old for, the typed wrapper of the same name. Functions that the table does not have
 * share a pool of them (unknown.c).
 */
#include "shim/lookup/unknown.h"

        .text
        .p2align 4
        .type   thunk, %function
thunk:                                  /* w16 = row */
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]           /* where a large result goes */
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     w0, w16
        bl      thunk_enter
        mov     x16, x0                 /* a branch through x16 may land on "bti c" */
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        br      x16
        .cfi_endproc
        .size   thunk, . - thunk

        .hidden thunk_enter

.macro THUNK symbol, bind
        .p2align 2
        \bind   \symbol
        .type   \symbol, %function
\symbol:
        .cfi_startproc
        hint    #34                     /* bti c */
        mov     w16, #row
        b       thunk
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
        hint    #34                     /* bti c */
        mov     w16, #row
        b       thunk
        .cfi_endproc
        .p2align 4
        .set    row, row + 1
        .endr

#ifdef __ARM_FEATURE_BTI_DEFAULT
        .section .note.gnu.property, "a"
        .p2align 3
        .word   4, 16, 5                /* name size, descriptor size, NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .word   0xc0000000, 4, 1, 0     /* AArch64 features: BTI */
#endif
        .section .note.GNU-stack, "", %progbits
