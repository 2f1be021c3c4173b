/*
 * kernel_name.c - names of kernels as people read them: names of real libraries and compilers, and
 * anything else that a file may have as a name.
 */
#include "tools/cutin/kernel_name.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *what;
    size_t width;
    const char *raw, *shown;
} rows[] = {
    {"ATen", KERNEL_NAME_WHOLE,
     "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIP"
     "cLm3EELb0EEEviT0_T1_",
     "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std"
     "::array<char*, 3ul>, false>"},
    {"ATen", 72,
     "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIP"
     "cLm3EELb0EEEviT0_T1_",
     "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...>"},
    {"ATen", 56,
     "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIP"
     "cLm3EELb0EEEviT0_T1_",
     "vectorized_elementwise_kernel<4, CUDAFunctor_add<flo...>"},
    {"ATen, of lambdas within lambdas", 120,
     "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_67_GLOBAL__N__670fa217_28_Activati"
     "onHardswishKernel_cu_e5d96c45_4256816hardswish_kernelERNS_14TensorIteratorEENKUlvE_c"
     "lEvENKUlvE2_clEvEUlN3c108BFloat16EE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi"
     "1EjESE_NS0_6memory15LoadWithoutCastENSF_16StoreWithoutCastEEEviT_T0_T2_T3_T4_T5_",
     "unrolled_elementwise_kernel<hardswish_kernel::{lambda#1.4.1}, array<...>, 4, ...>"},
    {"ATen, a lambda within a template", 120,
     "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_10AbsFunctorI"
     "N3c104HalfEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
     "at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::AbsFu"
     "nctor<c10::Half>>::{lambda#1}>"},
    {"ATen, a lambda within a template", 72,
     "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_10AbsFunctorI"
     "N3c104HalfEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
     "elementwise_kernel<128, 4, gpu_kernel_impl<AbsFunctor<...>>::{lambda#1}>"},
    {"ATen, in an anonymous namespace", 120,
     "_ZN2at6native59_GLOBAL__N__40e35841_26_fused_adam_amsgrad_impl_cu_169fdea025multi_te"
     "nsor_apply_kernelINS1_32FusedOptimizerTensorListMetadataILi5EEENS1_20FusedAdamMathFu"
     "nctorIN3c108BFloat16ELi5ELNS0_9ADAM_MODEE0ELb1EEEJPKfdddddbSB_SB_EEEvT_T0_DpT1_",
     "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<5>, FusedAdamMathFunctor<"
     "...>, float const*, ...>"},
    {"a reduction of ATen", 72,
     "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c104HalfENS0_9MinMaxOpsIS4_S4"
     "_iEEjS4_Li4ELi4EEEEEvT1_",
     "at::native::reduce_kernel<512, 1, ReduceOp<...>>"},
    {"cuBLAS", 72,
     "_ZN8cublasLt19splitKreduce_kernelILi8ELi32Eif13__nv_fp8_e4m3fS1_Lb1Ef6__halfS2_Lb0EL"
     "b0ELb0ELb0EEEvNS_18cublasSplitKParamsIT4_EEPKT2_PKT8_PT7_PT3_PKS4_SH_PKT9_S8_PSI_Pvl"
     "PS4_PiSN_SN_SH_SH_SH_SH_SH_",
     "splitKreduce_kernel<8, 32, int, ...>"},
    {"cuBLAS, with a return type", 72,
     "_ZN8internal5gemvx6kernelIllafffLb0ELb0ELb1ELb0ELi9ELb0E18cublasGemvParamsExIi30cubl"
     "asGemvTensorStridedBatchedIKaES3_IKfES3_IfEfEEENSt9enable_ifIXntT5_EvE4typeET11_",
     "kernel<long, long, signed char, ...>"},
    {"CUTLASS 2", 120,
     "_ZN7cutlass7Kernel2I66cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_al"
     "ign8EEvNT_6ParamsE",
     "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8>"},
    {"CUTLASS 2", 72,
     "_ZN7cutlass7Kernel2I66cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_al"
     "ign8EEvNT_6ParamsE",
     "Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_...>"},
    {"cuDNN", 120,
     "_ZN5cudnn19engines_precompiled16nchwToNhwcKernelI13__nv_bfloat16S2_fLb1ELb1EL21cudnn"
     "KernelDataType_t2EEEvNS0_18nchw2nhwc_params_tIT1_EEPKT_PT0_",
     "cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, tr"
     "ue, true, (cudnnKernelDataType_t)2>"},
    {"CUTLASS 3, which libstdc++ does not demangle", 120,
     "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kern"
     "el13GemmUniversalIN4cute5tupleIJiiiEEENS5_10collective13CollectiveMmaINS5_34Mainloop"
     "Sm90TmaGmmaWarpSpecializedILi6ENS9_IJNS8_1CILi1EEENSE_ILi2EEESF_EEENS5_44KernelTmaWa"
     "rpSpecializedPingpongFP8FastAccumEEENS9_IJNSE_ILi128EEESK_SK_EEENS_12float_e5m2_tENS"
     "9_IJlSF_lEEENS_12float_e4m3_tESN_NS8_8TiledMMAINS8_8MMA_AtomIJNS8_4SM904GMMA31MMA_64"
     "x128x32_F32E5M2E4M3_SS_TNILNSS_7ScaleInE1ELSU_1EEEEEENS8_6LayoutINS9_IJSF_SF_SF_EEEN"
     "S9_IJNSE_ILi0EEESZ_SZ_EEEEENS9_IJNS8_10UnderscoreES12_S12_EEEEENS8_23SM90_TMA_LOAD_M"
     "ULTICASTENS8_14ComposedLayoutINS8_7SwizzleILi3ELi4ELi3EEENS8_18smem_ptr_flag_bitsILi"
     "8EEENSX_INS9_IJNSE_ILi8EEESK_EEENS9_IJSK_SF_EEEEEEEvNS8_8identityENS8_13SM90_TMA_LOA"
     "DES1F_vS1G_EENS_8epilogue10collective18CollectiveEpilogueINS1J_22Sm90TmaWarpSpeciali"
     "zedILi4ELi2ELi16ELb0ELb1EEEJSL_NS9_IJNSE_ILi64EEENSE_ILi32EEEEEEvSN_NS_6half_tESN_NS"
     "1J_6fusion15Sm90TreeVisitorINS1S_11Sm90ComputeINS1J_6thread8IdentityES1R_fLNS_15Floa"
     "tRoundStyleE2EvEEJNS1T_INS1U_INS_4plusEffLS1X_2EvEEJNS1S_16Sm90RowBroadcastILi0ESL_f"
     "fNS9_IJSZ_SF_SZ_EEELi4ELb1EEENS1T_INS1U_INS_10multipliesEffLS1X_2EvEEJS23_NS1T_IS25_"
     "JNS1S_16Sm90ColBroadcastILi0ESL_ffNS9_IJSF_SZ_SZ_EEELi4ELb1EEENS1S_12Sm90AccFetchEEE"
     "EEEEEEEEEES1H_NS16_INS17_ILi2ELi4ELi3EEENS19_ILi16EEENSX_INS9_IJS1B_S1P_EEENS9_IJS1P"
     "_SF_EEEEEEENS8_17SM75_U32x4_LDSM_NENS8_14SM90_TMA_STOREES2J_NS8_17SM90_U32x4_STSM_NE"
     "NS8_9Copy_AtomIJS2M_S1R_EEEvEEEvvEEEEEEvNT_6ParamsE",
     "cutlass::device_kernel<enable_3x_kernel_for_sm9x<GemmUniversal<tuple<...>, ...>, ..."
     ">, ...>"},
    {"Numba", 72,
     "_ZN20cudapy_3a_3a__main__3addB2v1B94cw51cXTLSUwv1sCUt9Uw1VEw0NRRQPKzLTg4gaGKFsG2oMQG"
     "EYakJSQB1PQBk0Bynm21oiwU1a0UoLGhDpQE8oxrNQE_3dE5ArrayIfLi1E1C7mutable7alignedE5Array"
     "IfLi1E1C7mutable7alignedEx",
     "cudapy_3a_3a__main__::add"},
    {"Rust", 72, "_ZN5saxpy7kernels5saxpy17h05af221e174051e9E", "saxpy::kernels::saxpy"},
    {"Rust's own mangling", 72, "_RNvCskwGfYPst2Cb_5saxpy6kernel",
     "_RNvCskwGfYPst2Cb_5saxpy6kernel"},
    {"cuBLAS, from assembly", 72, "ampere_fp16_sgemm_fp16_64x32_sliced1x4_nt",
     "ampere_fp16_sgemm_fp16_64x32_sliced1x4_nt"},
    {"Triton", 72, "triton_poi_fused_add_native_layer_norm_relu_0",
     "triton_poi_fused_add_native_layer_norm_relu_0"},
    {"Triton", 24, "triton_poi_fused_add_native_layer_norm_relu_0", "triton_poi_fused_add_..."},
    {"JAX", 72, "input_reduce_fusion_1", "input_reduce_fusion_1"},
    {"PTX", 72, "mix_spin", "mix_spin"},
    {"what is readable already", 72,
     "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
     "std::array<char*, 3ul>, false>",
     "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...>"},
    {"a plain function", 72, "_Z5saxpyifPfS_", "saxpy"},
    {"a lambda of a function without parameters", 72, "_ZN5chunkIZ4sortvEUlvE_E6kernelEv",
     "chunk<sort::{lambda#1}>::kernel"},
    {"an operator", 72, "_ZN3foo5applyIXadL_ZN3barltEiiEEEEvv", "foo::apply<&bar::operator<>"},
    {"no name", 72, "_Z", "_Z"},
    {"a name that was cut", 72,
     "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfE",
     "at::native::vectorized_elementwise_kernel<...>"},
    {"control characters", 72, "a\033[2Jb", "a?[2Jb"},
};

#if HAVE_CXA_DEMANGLE
Test(kernel_name, library_and_compiler_names_become_readable)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *shown = kernel_name_make(rows[i].raw, rows[i].width);

        cr_expect_str_eq(shown, rows[i].shown, "%s: %s", rows[i].what, shown);
        free(shown);
    }
}
#endif

Test(kernel_name, truncated_names_fit_the_width_and_are_not_empty)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *raw = strdup(rows[i].raw);

        for (size_t n = strlen(raw); n > 0; raw[--n] = '\0') {
            char *shown = kernel_name_make(raw, 8 + n % 100);

            cr_expect_leq(strlen(shown), 8 + n % 100, "%s", shown);
            cr_expect(*shown != '\0', "nothing of %s", raw);
            free(shown);
        }
        free(raw);
    }
}

Test(kernel_name, unclosed_brackets_are_cut_to_the_width)
{
    char raw[4096];

    for (const char *c = "I<{[(N"; *c; c++) {
        memset(raw, *c, sizeof(raw) - 1);
        raw[sizeof(raw) - 1] = '\0';
        raw[0] = '_';
        raw[1] = 'Z';
        raw[2] = 'N';
        char *shown = kernel_name_make(raw, 72);
        cr_expect_leq(strlen(shown), 72);
        free(shown);
    }
}

Test(kernel_name, names_are_cached_by_width_and_kind)
{
    const char *raw = rows[0].raw, *shown = kernel_name(raw, 72, false);

    cr_expect_eq(kernel_name(raw, 72, false), shown);
    cr_expect_str_eq(kernel_name(raw, 72, true), raw);
    cr_expect_str_neq(kernel_name(raw, 20, false), shown);
    cr_expect_str_eq(kernel_name("a\nb", 72, true), "a?b");
}
