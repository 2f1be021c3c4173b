/*
 * image.c - module images: tells PTX text, cubins (ELF) and fat binaries apart, and reads cubins.
 * The sections of a cubin say what PTX says in words: .text.NAME is an entry, .nv.info.NAME has its
 * parameters, symbols in .nv.global are variables. fatbin.c reads fat binaries.
 */
#include "tools/simgpu/program/image.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- building -------------------------------------------------------------------------------- */

struct image_entry *image_add_entry(struct image *image, const char *name, size_t length)
{
    struct image_entry *bigger =
        array_grow(image->entries, image->entry_count, sizeof(*image->entries));
    if (!bigger)
        return NULL;
    image->entries = bigger;
    struct image_entry *e = &bigger[image->entry_count];
    *e =
        (struct image_entry){.name = name_keep(name, length), .max_threads = 1024, .registers = 32};
    if (!e->name)
        return NULL;
    image->entry_count++;
    return e;
}

struct image_global *image_add_global(struct image *image, const char *name, size_t length)
{
    struct image_global *bigger =
        array_grow(image->globals, image->global_count, sizeof(*image->globals));
    if (!bigger)
        return NULL;
    image->globals = bigger;
    struct image_global *g = &bigger[image->global_count];
    *g = (struct image_global){.name = strndup(name, length)};
    if (!g->name)
        return NULL;
    image->global_count++;
    return g;
}

bool entry_add_param(struct image_entry *e, size_t offset, size_t size)
{
    struct sim_param *bigger = array_grow(e->params, e->param_count, sizeof(*e->params));
    if (!bigger)
        return false;
    e->params = bigger;
    e->params[e->param_count++] = (struct sim_param){offset, size};
    return true;
}

void image_free(struct image *image)
{
    if (!image)
        return;
    for (size_t i = 0; i < image->entry_count; i++)
        free(image->entries[i].params);
    for (size_t i = 0; i < image->global_count; i++) {
        free(image->globals[i].name);
        free(image->globals[i].initial);
    }
    free(image->entries);
    free(image->globals);
    free(image);
}

/* ---- cubins ---------------------------------------------------------------------------------- */

enum {
    MACHINE_CUDA = 190,
    INFO_PARAM = 0x1704,
    INFO_SIZED = 4,
    INFO_FRAME = 0x1104,
    SYMBOL_MANAGED = 4,
    CUBIN_MAX = 1 << 30
};

struct cubin {
    const unsigned char *data;
    size_t bytes;
    const Elf64_Shdr *sections;
    size_t count;
    const char *names;
    size_t names_bytes;
};

static bool span_inside(const struct cubin *c, uint64_t at, uint64_t bytes)
{
    return at <= c->bytes && bytes <= c->bytes - at;
}

static const char *section_name(const struct cubin *c, size_t i)
{
    size_t at = c->sections[i].sh_name;
    bool ends = at < c->names_bytes && memchr(c->names + at, 0, c->names_bytes - at);
    return ends ? c->names + at : "";
}

/* The length of a cubin is not given. It ends with its section headers, its program headers or its
 * last section, whichever ends last. */
static size_t cubin_bytes(const Elf64_Ehdr *h)
{
    const unsigned char *data = (const unsigned char *)h;
    uint64_t end = h->e_shoff + (uint64_t)h->e_shnum * sizeof(Elf64_Shdr);
    uint64_t programs = h->e_phoff + (uint64_t)h->e_phnum * h->e_phentsize;
    end = programs > end ? programs : end;
    if (end > CUBIN_MAX || h->e_shoff % 8)
        return 0;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(data + h->e_shoff);
    for (size_t i = 0; i < h->e_shnum; i++)
        if (s[i].sh_type != SHT_NOBITS && s[i].sh_offset + s[i].sh_size > end)
            end = s[i].sh_offset + s[i].sh_size;
    return end <= CUBIN_MAX ? end : 0;
}

static bool cubin_open(const unsigned char *data, size_t bytes, struct cubin *c)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)data;
    if (bytes && bytes < sizeof(*h))
        return false;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_machine != MACHINE_CUDA || h->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    *c = (struct cubin){.data = data, .bytes = bytes ? bytes : cubin_bytes(h), .count = h->e_shnum};
    if (!span_inside(c, h->e_shoff, c->count * sizeof(Elf64_Shdr)) || h->e_shoff % 8 ||
        h->e_shstrndx >= c->count)
        return false;
    c->sections = (const Elf64_Shdr *)(const void *)(data + h->e_shoff);
    const Elf64_Shdr *names = &c->sections[h->e_shstrndx];
    if (!span_inside(c, names->sh_offset, names->sh_size))
        return false;
    c->names = (const char *)data + names->sh_offset;
    c->names_bytes = names->sh_size;
    return true;
}

static uint32_t u32_at(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static uint16_t u16_at(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static int by_offset(const void *a, const void *b)
{
    const struct sim_param *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* .nv.info.NAME has records: format, attribute, and a 16-bit size or value. A parameter's record
 * has 12 more bytes: index, ordinal, offset, and in the upper 14 bits of the last word its size. */
static bool cubin_params(const struct cubin *c, const Elf64_Shdr *info, struct image_entry *e)
{
    enum { RECORD = 12 };
    if (!span_inside(c, info->sh_offset, info->sh_size))
        return false;
    const unsigned char *p = c->data + info->sh_offset, *end = p + info->sh_size;
    while (end - p >= 4) {
        size_t bytes = p[0] == INFO_SIZED ? u16_at(p + 2) : 0;
        if (bytes > (size_t)(end - p - 4))
            return false;
        bool param = (p[0] | p[1] << 8) == INFO_PARAM && bytes == RECORD;
        if (param && !entry_add_param(e, u16_at(p + 10), u32_at(p + 12) >> 18))
            return false;
        p += 4 + bytes;
    }
    if (e->param_count)
        qsort(e->params, e->param_count, sizeof(*e->params), by_offset);
    const struct sim_param *last = e->param_count ? &e->params[e->param_count - 1] : NULL;
    e->packed_bytes = last ? last->offset + last->size : 0;
    return true;
}

static const Elf64_Shdr *section_find(const struct cubin *c, const char *prefix, const char *name)
{
    size_t length = strlen(prefix);
    for (size_t i = 0; i < c->count; i++) {
        const char *have = section_name(c, i);
        if (!strncmp(have, prefix, length) && !strcmp(have + length, name))
            return &c->sections[i];
    }
    return NULL;
}

/* .nv.info has records of the same form. That of a function's stack: 8 bytes, symbol and size. */
static size_t cubin_frame(const struct cubin *c, uint32_t symbol)
{
    const Elf64_Shdr *info = section_find(c, ".nv.info", "");
    if (!info || !span_inside(c, info->sh_offset, info->sh_size))
        return 0;
    const unsigned char *p = c->data + info->sh_offset, *end = p + info->sh_size;
    for (; end - p >= 12; p += 4 + (p[0] == INFO_SIZED ? u16_at(p + 2) : 0))
        if ((p[0] | p[1] << 8) == INFO_FRAME && u32_at(p + 4) == symbol)
            return u32_at(p + 8);
    return 0;
}

/* `text` is the entry's section. The upper 8 bits of its sh_info are the number of registers, the
 * others the symbol. */
static bool cubin_entry(const struct cubin *c, const Elf64_Shdr *text, const char *name,
                        struct image *into)
{
    const Elf64_Shdr *info = section_find(c, ".nv.info.", name);
    const Elf64_Shdr *shared = section_find(c, ".nv.shared.", name);
    struct image_entry *e = image_add_entry(into, name, strlen(name));
    if (!e)
        return false;
    e->static_smem = shared ? shared->sh_size : 0;
    e->local_bytes = cubin_frame(c, text->sh_info & 0xffffff);
    if (text->sh_info >> 24)
        e->registers = text->sh_info >> 24;
    return !info || cubin_params(c, info, e);
}

static bool cubin_global(const struct cubin *c, const Elf64_Sym *symbol, const char *name,
                         struct image *into)
{
    const Elf64_Shdr *home = &c->sections[symbol->st_shndx];
    struct image_global *g = image_add_global(into, name, strlen(name));
    if (!g)
        return false;
    g->bytes = symbol->st_size;
    g->managed = symbol->st_other & SYMBOL_MANAGED;
    if (home->sh_type == SHT_NOBITS || symbol->st_size == 0)
        return true;
    if (symbol->st_value > home->sh_size || symbol->st_size > home->sh_size - symbol->st_value ||
        !span_inside(c, home->sh_offset, home->sh_size))
        return false;
    g->initial = malloc(symbol->st_size);
    if (g->initial)
        memcpy(g->initial, c->data + home->sh_offset + symbol->st_value, symbol->st_size);
    return g->initial;
}

static bool holds_globals(const char *section)
{
    return !strncmp(section, ".nv.global", 10) || !strncmp(section, ".nv.constant3", 13);
}

static bool cubin_globals(const struct cubin *c, const Elf64_Shdr *table, struct image *into)
{
    if (table->sh_link >= c->count || !span_inside(c, table->sh_offset, table->sh_size))
        return false;
    const Elf64_Shdr *names = &c->sections[table->sh_link];
    if (!span_inside(c, names->sh_offset, names->sh_size))
        return false;
    const char *text = (const char *)c->data + names->sh_offset;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, c->data + table->sh_offset + at, sizeof(symbol));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= c->count ||
            !holds_globals(section_name(c, symbol.st_shndx)) || symbol.st_name >= names->sh_size ||
            !memchr(text + symbol.st_name, 0, names->sh_size - symbol.st_name))
            continue;
        if (!cubin_global(c, &symbol, text + symbol.st_name, into))
            return false;
    }
    return true;
}

CUresult cubin_read(const unsigned char *data, size_t bytes, struct image *into)
{
    static const char text[] = ".text.";
    struct cubin c;
    bool good = cubin_open(data, bytes, &c);
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)data;
    /* ELF flags: it is in bits 0 to 7, since ABI version 8 (CUDA 13) in bits 8 to 15. */
    if (good)
        into->binary_arch = h->e_flags >> (h->e_ident[EI_ABIVERSION] >= 8 ? 8 : 0) & 0xff;
    into->ptx_arch = into->binary_arch;
    for (size_t i = 0; good && i < c.count; i++) {
        const char *name = section_name(&c, i);
        if (!strncmp(name, text, sizeof(text) - 1))
            good = cubin_entry(&c, &c.sections[i], name + sizeof(text) - 1, into);
        else if (!strncmp(name, ".nv.constant3", 13))
            into->const_bytes += c.sections[i].sh_size;
        else if (c.sections[i].sh_type == SHT_SYMTAB)
            good = cubin_globals(&c, &c.sections[i], into);
    }
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* ---- images of any form ---------------------------------------------------------------------- */

enum { WRAPPER_MAGIC = 0x466243b1 }; /* nvcc puts this in front of the address of the fat binary */
#define FATBIN_MAGIC  0xba55ed50u
#define IMAGE_UNKNOWN ((size_t)1 << 40)

struct fatbin_wrapper {
    uint32_t magic, version;
    const void *data;
    const void *file;
};

/* `bytes` is the length of a file. The length of an image in memory is unknown: IMAGE_UNKNOWN. */
static CUresult any_read(const unsigned char *data, size_t bytes, struct image *into)
{
    bool from_file = bytes != IMAGE_UNKNOWN;
    if (data[0] == '\0')
        return CUDA_ERROR_INVALID_IMAGE;
    if (!memcmp(data, ELFMAG, SELFMAG))
        return cubin_read(data, from_file ? bytes : 0, into);
    if (!from_file && data[0] == 0xb1 && u32_at(data) == WRAPPER_MAGIC) {
        struct fatbin_wrapper wrapper;
        memcpy(&wrapper, data, sizeof(wrapper));
        return wrapper.data ? any_read(wrapper.data, IMAGE_UNKNOWN, into)
                            : CUDA_ERROR_INVALID_IMAGE;
    }
    if (data[0] == 0x50 && u32_at(data) == FATBIN_MAGIC)
        return fatbin_read(data, bytes, into);
    return ptx_parse((const char *)data, bytes, into);
}

static CUresult image_read_bytes(const void *data, size_t bytes, struct image **out)
{
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    struct image *image = calloc(1, sizeof(*image));
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = any_read(data, bytes, image);
    if (rc != CUDA_SUCCESS)
        image_free(image);
    else
        *out = image;
    return rc;
}

CUresult image_read(const void *data, struct image **out)
{
    return image_read_bytes(data, IMAGE_UNKNOWN, out);
}

CUresult image_read_file(const char *path, struct image **out)
{
    enum { ZEROS = 64 };
    struct stat st;
    unsigned char *data = NULL;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult rc = CUDA_ERROR_FILE_NOT_FOUND;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        /* Zeros follow, so that text ends and headers can be read before lengths are checked. */
        data = calloc(1, (size_t)st.st_size + ZEROS);
        rc = data ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (off_t at = 0; rc == CUDA_SUCCESS && at < st.st_size;) {
        ssize_t n = read(fd, data + at, (size_t)(st.st_size - at));
        if (n <= 0)
            break;
        at += n;
    }
    close(fd);
    if (rc == CUDA_SUCCESS)
        rc = image_read_bytes(data, (size_t)st.st_size, out);
    free(data);
    return rc;
}
