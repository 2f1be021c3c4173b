/*
 * dlsym_aarch64.S - dlsym and dlvsym in front of the loader's.
 *
 * The loader answers RTLD_NEXT and RTLD_DEFAULT by the return address it finds in x30. So for every
 * name that is not the driver's these stubs leave no trace: they jump to the real function, which
 * sees the true caller.
 */
.macro LOOKUP symbol, ask
        .text
        .p2align 2
        .globl  \symbol
        .type   \symbol, %function
\symbol:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30                 /* the caller */
        bl      \ask                    /* x0 = answer, x1 = where to jump, 0 = return the answer */
        mov     x16, x1
        ldr     x2, [sp, #32]
        cbz     x16, 1f
        ldp     x0, x1, [sp, #16]
1:      ldp     x29, x30, [sp], #48
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        cbz     x16, 2f
        br      x16
2:      ret
        .cfi_endproc
        .size   \symbol, . - \symbol
        .hidden \ask
.endm

        LOOKUP  dlsym, lookup_dlsym
        LOOKUP  dlvsym, lookup_dlvsym

#ifdef __ARM_FEATURE_BTI_DEFAULT
        .section .note.gnu.property, "a"
        .p2align 3
        .word   4, 16, 5                /* name size, descriptor size, NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .word   0xc0000000, 4, 1, 0     /* AArch64 features: BTI */
#endif
        .section .note.GNU-stack, "", %progbits
