/*
 * ptx.c - what the reader finds in PTX, and what it refuses.
 */
#include "tools/simgpu/program/image.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

static CUresult parse(const char *text, struct image *image)
{
    memset(image, 0, sizeof(*image));
    return ptx_parse(text, strlen(text), image);
}

static struct image *read_good(const char *text)
{
    struct image *image = NULL;
    cr_assert_eq(image_read(text, &image), CUDA_SUCCESS, "refused: %s", text);
    return image;
}

#define HEAD ".version 8.0\n.target sm_80, texmode_independent\n.address_size 64\n"

Test(ptx, example_kernels_have_expected_parameters)
{
    static const struct {
        const char *name;
        size_t params, bytes;
    } expected[] = {{"spin", 1, 8},      {"spin_word", 1, 8},  {"fill", 3, 16},
                    {"copy", 3, 20},     {"axpy", 4, 24},      {"mix", 4, 20},
                    {"mix_spin", 5, 32}, {"await_mix", 6, 36}, {"exchange", 10, 68}};
    struct image *image = NULL;
    cr_assert_eq(image_read_file(SOURCE_DIR "/examples/kernels.ptx", &image), CUDA_SUCCESS);
    cr_assert_eq(image->entry_count, 9);
    for (size_t i = 0; i < 9; i++) {
        cr_expect_str_eq(image->entries[i].name, expected[i].name);
        cr_expect_eq(image->entries[i].param_count, expected[i].params);
        cr_expect_eq(image->entries[i].packed_bytes, expected[i].bytes);
    }
    image_free(image);
}

/* Time in which the context is switched out, or its groups are stopped, must not count as work. */
Test(ptx, busy_kernels_count_at_most_4_us_per_timer_read)
{
    static const char look[] = "mov.u64 %now, %globaltimer;",
                      counted[] = "sub.u64 %past, %now, %last;\n    min.u64 %past, %past, 4000;\n"
                                  "    add.u64 %busy, %busy, %past;";
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    static char text[1 << 16];
    int looks = 0;
    cr_assert(f && fread(text, 1, sizeof(text) - 1, f) > 0 && feof(f));
    fclose(f);
    for (char *at = text; (at = strstr(at, look)); looks++) {
        at += strlen(look) + strspn(at + strlen(look), "\n ");
        cr_expect_eq(strncmp(at, counted, strlen(counted)), 0, "look %d", looks);
    }
    cr_expect_eq(looks, 3);
}

Test(ptx, parameters_are_placed_by_their_alignment)
{
    struct image *image = read_good(
        HEAD ".visible .entry k(.param .u8 a, .param .u16 b, .param .align 16 .b8 c[20],\n"
             "  .param .u64 .ptr .global .align 4 d, .param .f32 e) { ret; }");
    static const size_t offsets[] = {0, 2, 16, 40, 48}, sizes[] = {1, 2, 20, 8, 4};
    const struct image_entry *e = &image->entries[0];
    cr_assert_eq(e->param_count, 5);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(e->params[i].offset, offsets[i]);
        cr_expect_eq(e->params[i].size, sizes[i]);
    }
    cr_expect_eq(e->packed_bytes, 52);
    image_free(image);
}

Test(ptx, max_threads_and_static_shared_memory_are_found)
{
    struct image *image = read_good(
        HEAD
        ".shared .align 4 .b8 common_words[16];\n.extern .shared .align 16 .b8 dynamic[];\n"
        ".entry k() .maxntid 64, 2, 1 .minnctapersm 2 { .shared .align 8 .b8 own[100]; {ret;} }");
    cr_expect_eq(image->entries[0].max_threads, 128);
    cr_expect_eq(image->entries[0].static_smem, 116);
    cr_expect_eq(image->entries[0].param_count, 0);
    image_free(image);
}

Test(ptx, shared_operand_in_instruction_declares_no_memory)
{
    struct image *image =
        read_good(HEAD ".entry k() { .shared .align 4 .b8 own[64];\n"
                       "st.shared.u32 [own], 5; label: ld.shared.v2.u32 {%r1, %r2}, "
                       "[own]; ret; }");
    cr_expect_eq(image->entries[0].static_smem, 64);
    image_free(image);
}

Test(ptx, target_is_found)
{
    struct image *image = read_good(HEAD ".entry k() { ret; }");
    cr_expect_eq(image->ptx_arch, 80);
    image_free(image);
}

Test(ptx, globals_have_sizes_and_values)
{
    struct image *image =
        read_good(HEAD ".visible .global .align 8 .b8 blob[3][4];\n.const .f32 half = 0f3F000000;\n"
                       ".global .attribute(.managed) .s32 shared_with_host = -2;\n.extern .global "
                       ".u32 elsewhere;\n"
                       ".global .v4 .f32 quad;");
    float half;
    int32_t two;
    cr_assert_eq(image->global_count, 4);
    cr_expect_eq(image->globals[0].bytes, 12);
    memcpy(&half, image->globals[1].initial, sizeof(half));
    cr_expect_eq(half, 0.5f);
    memcpy(&two, image->globals[2].initial, sizeof(two));
    cr_expect_eq(two, -2);
    cr_expect(image->globals[2].managed);
    cr_expect_eq(image->globals[3].bytes, 16);
    image_free(image);
}

Test(ptx, comments_functions_and_debug_lines_are_skipped)
{
    struct image *image = read_good(
        "/* a\n .entry no() */ // .entry no2()\n" HEAD
        ".file 1 \"x.cu\", 12, 34\n.func (.param .b32 r) helper (.param .b64 p) { { ret; } }\n"
        ".extern .func later (.param .b32 x);\n.weak .func w() { ret; }\n"
        ".visible .entry k(.param .u32 n) { .loc 1 2 3\n .reg .pred p; @p bra L; L: ret; }\n"
        ".section .debug_str { .b8 1,2,3 }\n");
    cr_assert_eq(image->entry_count, 1);
    cr_expect_str_eq(image->entries[0].name, "k");
    image_free(image);
}

Test(ptx, prototype_without_a_semicolon_hides_no_entry)
{
    struct image *image = read_good(
        HEAD
        ".extern .func later\n(.param .b64 h, .param .b32 v)\n\n.visible .entry k(.param .u64 h)\n"
        "{ call.uni later, (h, 1); ret; }");
    cr_assert_eq(image->entry_count, 1);
    cr_expect_str_eq(image->entries[0].name, "k");
    image_free(image);
}

Test(ptx, garbage_is_refused)
{
    static const char *const bad[] = {
        "hello",
        ".entry k() { ret; }",
        HEAD "int main(void) {}",
        HEAD ".entry k(.param .u64 a { ret; }",
        HEAD ".entry k(.param .u65 a) { ret; }",
        HEAD ".entry k() { ret;",
        HEAD ".entry k()",
        HEAD ".entry { }",
        HEAD ".global .u32 x",
        HEAD ".global x;",
        HEAD "}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct image *image = NULL;
        cr_expect_eq(image_read(bad[i], &image), CUDA_ERROR_INVALID_PTX, "read: %s", bad[i]);
    }
    struct image *none = NULL;
    cr_expect_eq(image_read(NULL, &none), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(image_read("", &none), CUDA_ERROR_INVALID_IMAGE);
}

/* Wherever the text is cut, the reader neither crashes nor reads beyond its end. */
Test(ptx, text_truncated_anywhere_is_parsed_or_refused)
{
    static const char text[] = HEAD ".visible .global .align 4 .u32 t[2] = {1, 2};\n"
                                    ".visible .entry k(.param .u64 a, .param .align 8 .b8 b[8])\n"
                                    ".maxntid 32, 1, 1 { .shared .b8 s[4]; /* c */ ret; }";
    for (size_t n = 0; n < sizeof(text); n++) {
        struct image image;
        char copy[sizeof(text)];
        memcpy(copy, text, n);
        copy[n < sizeof(text) ? n : n - 1] = '\0';
        CUresult rc = parse(copy, &image);
        cr_assert(rc == CUDA_SUCCESS || rc == CUDA_ERROR_INVALID_PTX);
        struct image *owned = malloc(sizeof(*owned));
        *owned = image;
        image_free(owned);
    }
}

/* A cubin as ptxas makes it, with only what the reader looks at. */
struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr sections[6];
    char names[64];
    unsigned char info[32];
    Elf64_Sym symbols[2];
};

static struct cubin cubin_make(void)
{
    struct cubin c;
    memset(&c, 0, sizeof(c));
    memcpy(c.header.e_ident, ELFMAG, SELFMAG);
    c.header.e_ident[EI_CLASS] = ELFCLASS64;
    c.header.e_machine = 190;
    c.header.e_shoff = offsetof(struct cubin, sections);
    c.header.e_shentsize = sizeof(Elf64_Shdr);
    c.header.e_shnum = 6;
    c.header.e_shstrndx = 1;
    static const char names[] = "\0.shstrtab\0.text.k\0.nv.info.k\0.nv.global";
    memcpy(c.names, names, sizeof(names));
    c.sections[1] = (Elf64_Shdr){.sh_name = 1,
                                 .sh_type = SHT_STRTAB,
                                 .sh_offset = offsetof(struct cubin, names),
                                 .sh_size = 64};
    c.sections[2] = (Elf64_Shdr){.sh_name = 11, .sh_type = SHT_PROGBITS};
    c.sections[3] = (Elf64_Shdr){
        .sh_name = 19, .sh_offset = offsetof(struct cubin, info), .sh_size = sizeof(c.info)};
    c.sections[4] = (Elf64_Shdr){.sh_name = 30, .sh_type = SHT_NOBITS, .sh_size = 8};
    c.sections[5] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                 .sh_offset = offsetof(struct cubin, symbols),
                                 .sh_size = sizeof(c.symbols),
                                 .sh_link = 1};
    for (unsigned int i = 0; i < 2; i++)
        c.symbols[i] = (Elf64_Sym){.st_name = 31 + i,
                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                                   .st_other = i ? 4 : 0, /* managed */
                                   .st_shndx = 4,
                                   .st_value = 4 * i,
                                   .st_size = 4};
    const uint16_t second[] = {0x1704, 12, 0, 0, 1, 8, 0, 4 << 2};
    const uint16_t first[] = {0x1704, 12, 0, 0, 0, 0, 0, 8 << 2};
    memcpy(c.info, second, 16);
    memcpy(c.info + 16, first, 16);
    return c;
}

Test(ptx, cubin_sections_give_kernels_parameters_and_globals)
{
    struct cubin c = cubin_make();
    struct image *image = NULL;
    cr_assert_eq(image_read(&c, &image), CUDA_SUCCESS);
    cr_assert_eq(image->entry_count, 1);
    cr_expect_str_eq(image->entries[0].name, "k");
    cr_assert_eq(image->entries[0].param_count, 2);
    cr_expect_eq(image->entries[0].params[1].offset, 8);
    cr_expect_eq(image->entries[0].params[1].size, 4);
    cr_expect_eq(image->entries[0].packed_bytes, 12);
    cr_assert_eq(image->global_count, 2);
    cr_expect_str_eq(image->globals[0].name, "nv.global");
    cr_expect_eq(image->globals[0].bytes, 4);
    cr_expect_not(image->globals[0].managed);
    cr_expect(image->globals[1].managed);
    image_free(image);
}

/* What becomes of the first bytes of this one, as a file. */
static CUresult cubin_file(const struct cubin *c, size_t bytes)
{
    char path[] = "/tmp/simgpu-cubin-XXXXXX";
    int fd = mkstemp(path);
    struct image *image = NULL;
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, c, bytes, 0), (ssize_t)bytes);
    CUresult rc = image_read_file(path, &image);
    close(fd);
    unlink(path);
    cr_assert_eq(!!image, rc == CUDA_SUCCESS);
    image_free(image);
    return rc;
}

#define IN_FIELD(at, field)                                                                        \
    ((at) >= offsetof(struct cubin, header.field) &&                                               \
     (at) < offsetof(struct cubin, header.field) + sizeof(((struct cubin *)0)->header.field))

/* These bytes of the header say what it is and where its sections are. */
static bool is_vital(size_t at)
{
    return at < SELFMAG || at == EI_CLASS || IN_FIELD(at, e_machine) || IN_FIELD(at, e_shoff) ||
           IN_FIELD(at, e_shentsize) || IN_FIELD(at, e_shnum) || IN_FIELD(at, e_shstrndx);
}

/* Its last bytes are those of its symbols. So each part that is cut off is missed. */
Test(ptx, truncated_or_corrupted_cubin_is_refused)
{
    struct cubin whole = cubin_make();
    cr_assert_eq(cubin_file(&whole, sizeof(whole)), CUDA_SUCCESS);
    for (size_t at = 0; at < sizeof(whole); at++) {
        struct cubin bent = whole;
        ((unsigned char *)&bent)[at] ^= 0xff;
        CUresult rc = cubin_file(&bent, sizeof(bent));
        cr_assert(rc == CUDA_SUCCESS || rc == CUDA_ERROR_INVALID_IMAGE ||
                      (at < SELFMAG && rc == CUDA_ERROR_INVALID_PTX),
                  "bent at %zu: %d", at, rc);
        cr_assert(rc != CUDA_SUCCESS || !is_vital(at), "bent at %zu, and read", at);
        cr_assert_neq(cubin_file(&whole, at), CUDA_SUCCESS, "cut at %zu, and read", at);
    }
}

/* ---- fat binaries ---------------------------------------------------------------------------- */

struct part {
    uint16_t kind; /* 1: text, 2: cubin */
    uint32_t arch;
    uint64_t flags;
    const char *text;
};

static struct fatbin {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    unsigned char parts[4096];
} fatbin;

static size_t compress(const struct part *part, unsigned char *to, size_t room)
{
    size_t bytes = strlen(part->text) + 1;
#ifdef HAVE_LZ4
    if (part->flags & 0x2000)
        return (size_t)LZ4_compress_default(part->text, (char *)to, (int)bytes, (int)room);
#endif
#ifdef HAVE_ZSTD
    if (part->flags & 0x8000)
        return ZSTD_compress(to, room, part->text, bytes, 1);
#endif
    memcpy(to, part->text, bytes);
    return bytes;
}

static void fatbin_add(const struct part *part)
{
    enum { HEADER = 64 };
    unsigned char *at = fatbin.parts + fatbin.bytes;
    size_t bytes = compress(part, at + HEADER, sizeof(fatbin.parts) - fatbin.bytes - HEADER);
    uint64_t padded = (bytes + 7) / 8 * 8, full = strlen(part->text) + 1;
    uint32_t header = HEADER, compressed = part->flags ? (uint32_t)bytes : 0;
    memcpy(at, &part->kind, 2);
    memcpy(at + 4, &header, 4);
    memcpy(at + 8, &padded, 8);
    memcpy(at + 16, &compressed, 4);
    memcpy(at + 28, &part->arch, 4);
    memcpy(at + 40, &part->flags, 8);
    memcpy(at + 56, &full, 8);
    fatbin.bytes += HEADER + padded;
}

static CUresult fatbin_parse(const struct part *parts, size_t count, struct image **image)
{
    fatbin = (struct fatbin){.magic = 0xba55ed50, .version = 1, .header_bytes = 16};
    for (size_t i = 0; i < count; i++)
        fatbin_add(&parts[i]);
    return image_read(&fatbin, image);
}

#define TEXT(name) HEAD ".entry " name "() { ret; }"

static void takes(const struct part *parts, size_t count, const char *entry)
{
    struct image *image = NULL;
    cr_assert_eq(fatbin_parse(parts, count, &image), CUDA_SUCCESS);
    cr_assert_eq(image->entry_count, 1);
    cr_expect_str_eq(image->entries[0].name, entry);
    image_free(image);
}

Test(fatbin, newest_runnable_ptx_is_taken)
{
    static const struct part parts[] = {{1, 75, 0, TEXT("old")},
                                        {1, 80, 0, TEXT("own")},
                                        {1, 90, 0, TEXT("newer_than_the_device")}};
    takes(parts, 3, "own");
    takes(parts, 1, "old");
}

Test(fatbin, device_8_6_takes_its_own_ptx)
{
    static const struct part parts[] = {{1, 80, 0, TEXT("of_8_0")},
                                        {1, 86, 0, TEXT("of_8_6")},
                                        {1, 89, 0, TEXT("newer_than_both")}};
    setenv("SIMGPU_COMPUTE", "8.6", 1);
    takes(parts, 3, "of_8_6");
}

Test(fatbin, binary_without_runnable_part_is_refused)
{
    static const struct part newer = {1, 90, 0, TEXT("newer_than_the_device")},
                             other = {2, 75, 0, "a cubin of another generation"};
    struct image *image;
    cr_expect_eq(fatbin_parse(&newer, 1, &image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    cr_expect_eq(fatbin_parse(&other, 1, &image), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#ifdef HAVE_LZ4
Test(fatbin, lz4_part_is_decompressed)
{
    static const struct part part = {1, 80, 0x2000, TEXT("packed")};
    takes(&part, 1, "packed");
}
#endif

#ifdef HAVE_ZSTD
Test(fatbin, zstandard_part_is_decompressed)
{
    static const struct part part = {1, 80, 0x8000, TEXT("packed")};
    takes(&part, 1, "packed");
}

Test(fatbin, damaged_zstandard_part_is_refused)
{
    static const struct part part = {1, 80, 0x8000, TEXT("packed")};
    struct image *image;
    takes(&part, 1, "packed");
    memset(fatbin.parts + 64, 0, 16);
    cr_expect_eq(image_read(&fatbin, &image), CUDA_ERROR_INVALID_IMAGE);
}
#endif
