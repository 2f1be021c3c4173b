/*
 * doctor_functions.c - which of the driver's functions does this version not know, and does
 * libcutin.so stand in front of them?
 *
 * The driver's own symbol table names them. What cuGetProcAddress alone hands out is in no list: a
 * program that meets such a function says so with CUTIN_LOG=info.
 */
#include "doctor.h"
#include "shim/lookup/elf.h"
#include "tools/facts/fact.h"

#include <dlfcn.h>
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

void functions_look(void *library)
{
    json_t *unknown = json_array();
    int functions = 0, passing = 0;
    struct elf_object driver;
    struct link_map *map;

    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !elf_open_map(&driver, map))
        return;
    for (size_t i = 0, n = elf_count(&driver); i < n; i++) {
        const ElfW(Sym) *symbol = &driver.symbols[i];
        const char *name = driver.strings + symbol->st_name;
        Dl_info info;

        if (symbol->st_shndx == SHN_UNDEF || (symbol->st_info & 0xf) != STT_FUNC ||
            strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z')
            continue;
        functions++;
        if (is_known(name))
            continue;
        json_array_append_new(unknown, json_string(name));
        passing += !dladdr(dlsym(library, name), &info) || !strstr(info.dli_fname, "libcutin.so");
    }
    fact_value("functions", json_integer(functions));
    fact_value("passing", json_integer(passing));
    fact_value("unknown", unknown);
}

/* As many as fit. */
static const char *some_of(const json_t *names, char *out, size_t size)
{
    const json_t *name;
    size_t i, used = 0;

    out[0] = '\0';
    json_array_foreach(names, i, name)
    {
        if (used + json_string_length(name) + sizeof(" ...") > size)
            return strcat(out, "...");
        used += (size_t)sprintf(out + used, "%s ", json_string_value(name));
    }
    return out;
}

void check_functions(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->preloaded;
    int unknown = (int)json_array_size(p->unknown);
    char names[200];

    some_of(p->unknown, names, sizeof(names));
    if (p->stage < PROBE_DRIVER)
        find(f, VERDICT_WARN, "see the check of the driver", "not looked at");
    else if (unknown == 0)
        find(f, VERDICT_OK, NULL, "this version knows all %d of the driver", p->functions);
    else if (p->passing == 0)
        find(f, VERDICT_NOTE, NULL,
             "%d of %d are not known to this version; their calls wait for buffered work: %s",
             unknown, p->functions, names);
    else
        find(
            f, VERDICT_WARN, "see the checks of preload and settings",
            "%d of %d are not known to this version, and %d of them may overtake buffered work: %s",
            unknown, p->functions, p->passing, names);
}
