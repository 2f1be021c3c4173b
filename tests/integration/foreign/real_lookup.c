/*
 * real_lookup.c - asks the driver that the loader finds for every name that it may have, in every
 * version and stream mode, bare and with cutin preloaded, and compares. Looking up names needs no
 * GPU.
 *
 *   real_lookup LIBCUTIN    one line: what was asked, what came of it, how many answers are wrong
 *   real_lookup --ask       the answers of this process, one line each
 *
 * For a name that the table wraps or drains the answer must be cutin's, for one that it passes the
 * driver's own. For what the driver exports but the table lacks it must be a thunk of the pool.
 * Results and status outputs must be the driver's.
 */
#include "shim/lookup/elf.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct row {
    const char *symbol, *name;
    int version, per_thread;
    bool intercepted;
} rows[] = {
#define ROW(symbol, name, version, per_thread, intercepted)                                        \
    {#symbol, #name, version, per_thread, intercepted},
#define API_PASS(symbol, function, name, version, per_thread, ...)                                 \
    ROW(symbol, name, version, per_thread, false)
#define API_DRAIN(symbol, function, name, version, per_thread, ...)                                \
    ROW(symbol, name, version, per_thread, true)
#define API_WRAP API_DRAIN
#include "shim/lookup/api.def"
};
enum { ROWS = sizeof(rows) / sizeof(*rows), NAMES = 4096 };

static const int versions[] = {2000,  2010,  2020,  2030,  3000,  3010,  3020,  4000,  4010,  4020,
                               5000,  5050,  6000,  6050,  7000,  7050,  8000,  9000,  9010,  9020,
                               10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040, 11050, 11060,
                               11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12070,
                               12080, 12090, 13000, 13010, 13020, 13030, 13040, 13050};
enum { VERSIONS = sizeof(versions) / sizeof(*versions), MODES = 3 };

static struct link_map *driver;
static const char *names[NAMES];
static int name_count;

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "real_lookup: %s\n", what);
    exit(2);
}

/* ---- the names ---------------------------------------------------------------------------- */

static bool driver_like(const char *name)
{
    return strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z';
}

static void name_add(const char *name)
{
    for (int i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (name_count == NAMES)
        give_up("too many names");
    names[name_count++] = strdup(name);
}

/* The driver is asked for cuMemGetAttribute_v2 by the name cuMemGetAttribute. */
static void name_add_exported(const char *name)
{
    char plain[128];
    name_add(name);
    snprintf(plain, sizeof(plain), "%s", name);
    for (char *cut; (cut = strrchr(plain, '_')); name_add(plain))
        *cut = '\0';
}

/* The functions and variables that the driver exports. */
static void names_of_driver(void)
{
    struct elf_object all;
    size_t count = elf_open_map(&all, driver) ? elf_count(&all) : 0;
    for (size_t i = 0; i < count; i++)
        if (all.symbols[i].st_shndx != SHN_UNDEF &&
            driver_like(all.strings + all.symbols[i].st_name))
            name_add_exported(all.strings + all.symbols[i].st_name);
}

static void names_collect(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &driver) != 0)
        give_up(dlerror());
    for (int i = 0; i < ROWS; i++) {
        name_add(rows[i].symbol);
        name_add(rows[i].name);
    }
    name_add("cuNoSuchFunction");
    name_add("cudnnCreate");
    names_of_driver();
}

/* ---- asking ------------------------------------------------------------------------------- */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Prints the library, the place in it, and the symbol. */
static void say_found(void *found)
{
    Dl_info info;
    if (!found)
        printf("- 0 -\n");
    else if (!dladdr(found, &info))
        printf("nobody 0 -\n");
    else
        printf("%s %lx %s\n", file_of(info.dli_fname),
               (unsigned long)((uintptr_t)found - (uintptr_t)info.dli_fbase),
               info.dli_saddr == found ? info.dli_sname : "-");
}

typedef int get4_fn(const char *, void **, int, uint64_t);
typedef int get5_fn(const char *, void **, int, uint64_t, int *);

static void ask_versions(get4_fn *get4, get5_fn *get5, const char *name)
{
    for (int v = 0; v < VERSIONS; v++)
        for (uint64_t mode = 0; mode < MODES; mode++) {
            void *found = NULL;
            int status = -1;
            int result = get5 ? get5(name, &found, versions[v], mode, &status)
                              : get4(name, &found, versions[v], mode);
            printf("%d %d ", result, status);
            say_found(result == 0 ? found : NULL);
        }
}

static void ask_init(void)
{
    int (*init)(unsigned), (*version)(int *), (*count)(int *), number = -1, devices = -1;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&version = dlsym(driver, "cuDriverGetVersion");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    if (!init || !version || !count)
        give_up("no cuInit");
    int initialised = init(0), told = version(&number), counted = count(&devices);
    printf("%d %d %d %d %d\n", initialised, told, number, counted, devices);
}

static int ask(void)
{
    get4_fn *get4;
    get5_fn *get5;
    *(void **)&get4 = dlsym(driver, "cuGetProcAddress");
    *(void **)&get5 = dlsym(driver, "cuGetProcAddress_v2");
    for (int i = 0; i < name_count; i++) {
        printf("0 0 ");
        say_found(dlsym(driver, names[i]));
    }
    for (int i = 0; get4 && i < name_count; i++)
        ask_versions(get4, NULL, names[i]);
    for (int i = 0; get5 && i < name_count; i++)
        ask_versions(NULL, get5, names[i]);
    ask_init();
    return fflush(stdout) != 0;
}

/* ---- comparing ---------------------------------------------------------------------------- */

struct answer {
    int result, status;
    char library[64], symbol[128];
    unsigned long at;
};

static struct {
    int asked, wrapped, pooled, left, absent, wrong;
} total;

static unsigned long row_at[ROWS]; /* where the driver exports it; 0: it does not */

static void rows_find(void)
{
    for (int i = 0; i < ROWS; i++) {
        void *found = dlsym(driver, rows[i].symbol);
        row_at[i] = found ? (unsigned long)((uintptr_t)found - driver->l_addr) : 0;
    }
}

static bool ours(const struct answer *with, const char *symbol)
{
    return strcmp(with->library, "libcutin.so") == 0 && strcmp(with->symbol, symbol) == 0;
}

static bool pooled(const struct answer *with)
{
    total.pooled++;
    return ours(with, "-");
}

static bool left_alone(const struct answer *bare, const struct answer *with)
{
    total.left++;
    return with->at == bare->at && strcmp(with->library, bare->library) == 0;
}

static bool wrapped(const struct answer *with, const struct row *r)
{
    total.wrapped++;
    return ours(with, r->symbol);
}

static bool judge_symbol(const char *name, const struct answer *bare, const struct answer *with)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].symbol, name) == 0)
            return rows[i].intercepted ? wrapped(with, &rows[i]) : left_alone(bare, with);
    return driver_like(name) ? pooled(with) : left_alone(bare, with);
}

/* Several rows of a name may have this address; any of them is right, since it is one function. */
static bool judge_name(const char *name, const struct answer *bare, const struct answer *with)
{
    bool known = false, any = false, exported = false;
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        known = true;
        any |= rows[i].intercepted;
        exported |= row_at[i] == bare->at;
        if (row_at[i] == bare->at && rows[i].intercepted && ours(with, rows[i].symbol))
            return wrapped(with, &rows[i]);
    }
    if (!known || (any && !exported))
        return pooled(with);
    return left_alone(bare, with);
}

static bool judge(const char *name, bool by_version, const struct answer *bare,
                  const struct answer *with)
{
    total.asked++;
    if (bare->result != with->result || bare->status != with->status)
        return false;
    if (strcmp(bare->library, "-") == 0) {
        total.absent++;
        return strcmp(with->library, "-") == 0;
    }
    if (strncmp(bare->library, "libcuda.so", 10) != 0)
        return left_alone(bare, with);
    return by_version ? judge_name(name, bare, with) : judge_symbol(name, bare, with);
}

static bool answer_next(FILE *f, struct answer *a)
{
    return fscanf(f, "%d %d %63s %lx %127s", &a->result, &a->status, a->library, &a->at,
                  a->symbol) == 5;
}

static void compare_one(const char *name, int version, int mode, FILE *bare, FILE *with)
{
    struct answer b, w;
    if (!answer_next(bare, &b) || !answer_next(with, &w))
        give_up("answers are missing");
    if (judge(name, version != 0, &b, &w))
        return;
    if (total.wrong++ < 10)
        fprintf(stderr, "wrong: %s %d %d: %d %d %s %s, bare %d %d %s %s\n", name, version, mode,
                w.result, w.status, w.library, w.symbol, b.result, b.status, b.library, b.symbol);
}

static void compare(FILE *bare, FILE *with)
{
    int ways = !!dlsym(driver, "cuGetProcAddress") + !!dlsym(driver, "cuGetProcAddress_v2");
    char b[128] = "", w[128] = "";
    for (int i = 0; i < name_count; i++)
        compare_one(names[i], 0, 0, bare, with);
    for (int i = 0; i < ways * name_count; i++)
        for (int v = 0; v < VERSIONS; v++)
            for (int mode = 0; mode < MODES; mode++)
                compare_one(names[i % name_count], versions[v], mode, bare, with);
    if (fscanf(bare, " %127[^\n]", b) != 1 || fscanf(with, " %127[^\n]", w) != 1)
        give_up("answers are missing");
    total.asked++;
    if (strcmp(b, w) != 0) {
        total.wrong++;
        fprintf(stderr, "wrong: cuInit and what follows answer %s, bare %s\n", w, b);
    }
    int init, told, version = 0;
    sscanf(b, "%d %d %d", &init, &told, &version);
    printf("CUDA %d.%d: %d names, %d lookups: %d ours, %d of the pool, %d left alone, %d absent; "
           "cuInit %d; %d wrong\n",
           version / 1000, version % 1000 / 10, name_count, total.asked, total.wrapped,
           total.pooled, total.left, total.absent, init, total.wrong);
}

static FILE *answers(const char *preload)
{
    int fd = memfd_create("answers", 0), status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", "real_lookup", "--ask", (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        give_up(preload ? "the preloaded process failed" : "the bare process failed");
    FILE *f = fdopen(fd, "r");
    if (!f)
        give_up("no memory");
    rewind(f);
    return f;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        give_up("which libcutin.so?");
    names_collect();
    if (strcmp(argv[1], "--ask") == 0)
        return ask();
    rows_find();
    compare(answers(NULL), answers(argv[1]));
    return total.wrong != 0;
}
