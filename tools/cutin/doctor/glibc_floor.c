/*
 * glibc_floor.c - which glibc a shared library needs, from its own version table (.gnu.version_r).
 */
#include "doctor.h"
#include "tools/cutin/image.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static const ElfW(Phdr) * program_header(const struct image *i, const ElfW(Ehdr) * e, unsigned n)
{
    return n < e->e_phnum ? image_at(i, e->e_phoff + n * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)))
                          : NULL;
}

/* Where in the file an address of the loaded library comes from; past its end: nowhere. */
static uint64_t offset_of(const struct image *i, const ElfW(Ehdr) * e, uint64_t address)
{
    const ElfW(Phdr) * p;

    for (unsigned n = 0; (p = program_header(i, e, n)); n++)
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
            return address - p->p_vaddr + p->p_offset;
    return UINT64_MAX;
}

static uint64_t dynamic_value(const struct image *i, const ElfW(Ehdr) * e, ElfW(Sxword) tag)
{
    const ElfW(Phdr) * p;
    const ElfW(Dyn) * d;

    for (unsigned n = 0; (p = program_header(i, e, n)); n++)
        for (uint64_t at = p->p_offset;
             p->p_type == PT_DYNAMIC && (d = image_at(i, at, sizeof(*d))) && d->d_tag != DT_NULL;
             at += sizeof(*d))
            if (d->d_tag == tag)
                return d->d_un.d_val;
    return 0;
}

static void note_version(const char *name, unsigned newest[2])
{
    unsigned major, minor;

    if (sscanf(name, "GLIBC_%u.%u", &major, &minor) == 2 &&
        (major > newest[0] || (major == newest[0] && minor > newest[1]))) {
        newest[0] = major;
        newest[1] = minor;
    }
}

static int read_versions(const struct image *i, unsigned newest[2])
{
    const ElfW(Ehdr) *e = image_at(i, 0, sizeof(*e));
    uint64_t strings, at, left;
    const ElfW(Verneed) * need;

    if (!e || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
        e->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
        return -ENOEXEC;
    strings = offset_of(i, e, dynamic_value(i, e, DT_STRTAB));
    at = offset_of(i, e, dynamic_value(i, e, DT_VERNEED));
    left = dynamic_value(i, e, DT_VERNEEDNUM);
    for (; left > 0 && (need = image_at(i, at, sizeof(*need))); left--, at += need->vn_next) {
        const ElfW(Vernaux) * aux;
        uint64_t aux_at = at + need->vn_aux;

        for (unsigned n = 0; n < need->vn_cnt && (aux = image_at(i, aux_at, sizeof(*aux)));
             n++, aux_at += aux->vna_next) {
            char name[24] = "";
            const char *text = image_at(i, strings + aux->vna_name, sizeof(name) - 1);

            if (text)
                note_version(memcpy(name, text, sizeof(name) - 1), newest);
        }
    }
    return 0;
}

int glibc_floor(const char *path, char out[16])
{
    unsigned newest[2] = {0, 0};
    struct image image;
    int rc = image_open(&image, path);

    if (rc != 0)
        return rc;
    rc = read_versions(&image, newest);
    image_close(&image);
    snprintf(out, 16, "%u.%u", newest[0] % 1000, newest[1] % 1000);
    return rc == 0 && newest[0] == 0 ? -ENOEXEC : rc;
}
