/*
 * doctor_functions.c - which of the driver's functions does this version not know, and does
 * libcutin.so stand in front of them?
 *
 * The driver's own symbol table names them. What cuGetProcAddress alone hands out is in no list: a
 * program that meets such a function says so with CUTIN_LOG=info.
 */
#include "doctor.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static bool is_known(const char *symbol)
{
    static const char *const symbols[] = {
#define API_PASS(symbol, ...) #symbol,
#define API_DRAIN             API_PASS
#define API_WRAP              API_PASS
#include "shim/lookup/api.def"
    };

    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (strcmp(symbols[i], symbol) == 0)
            return true;
    return false;
}

static bool is_drivers(const char *symbol)
{
    return symbol[0] == 'c' && symbol[1] == 'u' && symbol[2] >= 'A' && symbol[2] <= 'Z';
}

static bool passes(void *library, const char *symbol)
{
    Dl_info info;

    return !dladdr(dlsym(library, symbol), &info) || !strstr(info.dli_fname, "libcutin.so");
}

static void look(void *library, const char *symbol, struct probe *found)
{
    size_t used = strlen(found->unknown_names);

    found->functions++;
    if (is_known(symbol))
        return;
    found->unknown++;
    found->passing += passes(library, symbol);
    if (used + strlen(symbol) + 2 < sizeof(found->unknown_names))
        sprintf(found->unknown_names + used, "%s ", symbol);
}

/* Every linker puts the string table behind the symbols. */
void functions_look(void *library, struct probe *found)
{
    const ElfW(Sym) *symbol = NULL;
    const char *strings = NULL;
    struct link_map *map;

    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbol = (const ElfW(Sym) *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    }
    for (; symbol && (const char *)(symbol + 1) <= strings; symbol++)
        if (symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 0xf) == STT_FUNC &&
            is_drivers(strings + symbol->st_name))
            look(library, strings + symbol->st_name, found);
}

/* As many as fit. */
static const char *some_of(const char *names, char *out, size_t size)
{
    int shown = (int)(size - sizeof("..."));

    while ((size_t)shown < strlen(names) && shown > 0 && names[shown] != ' ')
        shown--;
    snprintf(out, size, "%.*s%s", shown, names, (size_t)shown < strlen(names) ? " ..." : "");
    return out;
}

void check_functions(const struct doctor *d, struct finding *f)
{
    const struct probe *p = d->preloaded;
    char names[200];

    some_of(p->unknown_names, names, sizeof(names));
    if (p->stage < PROBE_DRIVER)
        find(f, VERDICT_WARN, "see the check of the driver", "not looked at");
    else if (p->unknown == 0)
        find(f, VERDICT_OK, NULL, "this version knows all %u of the driver", p->functions);
    else if (p->passing == 0)
        find(f, VERDICT_NOTE, NULL,
             "%u of %u are not known to this version; their calls wait for buffered work: %s",
             p->unknown, p->functions, names);
    else
        find(
            f, VERDICT_WARN, "see the checks of preload and settings",
            "%u of %u are not known to this version, and %u of them may overtake buffered work: %s",
            p->unknown, p->functions, p->passing, names);
}
