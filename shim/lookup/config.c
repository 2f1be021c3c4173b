/*
 * config.c - the environment. It is read when the library is loaded, and again on first use, since
 * the program may have set something meanwhile, or cleared it all. A bad value gives one warning
 * and the default. A setting's own variable counts more than its key in CUTIN_CONF.
 */
#include "shim/lookup/conf.h"
#include "shim/lookup/misspelt.h"
#include "shim/lookup/shim.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine_socket.h"
#include "common/words.h"

enum kind { KIND_WORD, KIND_NUMBER, KIND_MICROS, KIND_PATH };

struct variable {
    const char *name;
    enum kind kind;
    size_t offset, size; /* of the field in struct config */
    uint32_t fallback;   /* for words and numbers */
    uint32_t least, most;
    const char *words;
};

#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
static const struct variable variables[] = {
#define CONFIG_WORD(name, field, fallback, words, help)                                            \
    {#name, KIND_WORD, FIELD(field), fallback, 0, 0, words},
#define CONFIG_NUMBER(name, field, fallback, least, most, help)                                    \
    {#name, KIND_NUMBER, FIELD(field), fallback, least, most, NULL},
#define CONFIG_MICROS(name, field, fallback, least, most, help)                                    \
    {#name, KIND_MICROS, FIELD(field), fallback, least, most, NULL},
#define CONFIG_PATH(name, field, fallback, help) {#name, KIND_PATH, FIELD(field), 0, 0, 0, NULL},
#include "shim/lookup/config.def"
};

static bool loading; /* the first reading: warnings wait for the second */

/* Words and numbers live in fields of four bytes (enums included), flags in one. */
static void field_set(struct config *c, const struct variable *v, uint32_t value)
{
    char *field = (char *)c + v->offset;

    if (v->size == sizeof(bool))
        *(bool *)(void *)field = value != 0;
    else
        memcpy(field, &value, sizeof(value));
}

static int number_parse(const char *text, uint32_t least, uint32_t most, uint32_t *value)
{
    uint64_t sum = 0;

    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        sum = sum * 10 + (uint64_t)(*text - '0');
        if (sum > most)
            return -1;
    }
    if (sum < least)
        return -1;
    *value = (uint32_t)sum;
    return 0;
}

/* Converts microseconds with up to three decimals to nanoseconds. */
static int micros_parse(const char *text, uint32_t least, uint32_t most, uint32_t *ns)
{
    size_t whole = strcspn(text, "."), decimals = text[whole] ? strlen(text + whole + 1) : 0;
    char digits[16];

    if (whole + 3 >= sizeof(digits) || decimals > 3 || (text[whole] && !decimals))
        return -1;
    memcpy(digits, text, whole);
    memcpy(digits + whole, "000", 4);
    memcpy(digits + whole, text + whole + (decimals != 0), decimals);
    return whole ? number_parse(digits, least * 1000, most * 1000, ns) : -1;
}

/* `name`: how a message names the setting. */
static void value_read(struct config *c, const struct variable *v, const char *name,
                       const char *text)
{
    bool micros = v->kind == KIND_MICROS;
    char *field = (char *)c + v->offset, word[16];
    uint32_t value;
    int index;

    switch (v->kind) {
    case KIND_WORD:
        index = word_index(v->words, text);
        field_set(c, v, index >= 0 ? (uint32_t)index : v->fallback);
        if (index >= 0 || loading)
            return;
        /* Finds the word of the default, for the message. */
        const char *words = v->words;
        uint32_t n = v->fallback;
        while (n--)
            words += strcspn(words, " ") + 1;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(words, " "), words);
        log_line(LOG_WARN, "%s=%.64s is not one of: %s; using %s", name, text, v->words, word);
        return;
    case KIND_PATH:
        if (strlen(text) < v->size)
            memcpy(field, text, strlen(text) + 1);
        else if (!loading)
            log_line(LOG_WARN, "%s=%.32s... is longer than %zu characters; using %s", name, text,
                     v->size - 1, field[0] ? field : "none");
        return;
    case KIND_NUMBER:
    case KIND_MICROS:
        if ((micros ? micros_parse : number_parse)(text, v->least, v->most, &value) == 0) {
            field_set(c, v, value);
            return;
        }
        field_set(c, v, v->fallback * (micros ? 1000 : 1));
        if (!loading)
            log_line(LOG_WARN, "%s=%.64s is not a number from %u to %u; using %u", name, text,
                     v->least, v->most, v->fallback);
    }
}

/* True if atoi would not return zero. atoi, strtol and sscanf have new names (of C23) in glibc
 * 2.38; a library that is built there and uses them would need that version. */
static bool number_set(const char *text)
{
    text += strspn(text, " \t");
    text += strspn(text, "+-");
    text += strspn(text, "0");
    return *text >= '1' && *text <= '9';
}

/* Reads what is set in the environment; the rest stays. */
static void config_read(struct config *c)
{
    static bool given; /* CUTIN_SOCKET was set when the library was loaded */
    const char *conf = secure_getenv("CUTIN_CONF");
    struct conf_part part;

    if (!given) {
        /* Where the daemon listens: the machine's socket if there is one, else this user's. */
        const char *run = secure_getenv("XDG_RUNTIME_DIR");
        size_t size = sizeof(c->socket);
        int length = -1;

        if (run && run[0] == '/' && !machine_socket_first(run))
            length = snprintf(c->socket, size, "%s" USER_SOCKET, run);
        if (length < 0 || (size_t)length >= size)
            snprintf(c->socket, size, MACHINE_SOCKET);
    }
    given |= loading && !!secure_getenv("CUTIN_SOCKET");
    while (conf && conf_next(&conf, &part)) {
        /* Static: one thread reads, and programs may have small stacks. */
        static char text[sizeof(c->cpus) + 1];
        char name[64];

        snprintf(name, sizeof(name), "CUTIN_CONF: %.*s", (int)part.key_length, part.key);
        snprintf(text, sizeof(text), "%.*s", (int)part.value_length, part.value ? part.value : "");
        for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
            if (conf_sets(&part, variables[i].name))
                value_read(c, &variables[i], name, text);
    }
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        const char *text = secure_getenv(variables[i].name);

        if (text)
            value_read(c, &variables[i], variables[i].name, text);
    }
    const char *injection = secure_getenv("CUDA_INJECTION64_PATH");
    const char *blocking = secure_getenv("CUDA_LAUNCH_BLOCKING");
    if (c->distance_ns)
        c->profile = PROFILE_OFF; /* times here do not fit other processes */
    if ((injection && *injection) || (blocking && number_set(blocking)))
        atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_SET);
}

enum { UNLOADED, UNREAD, READING, READY };
_Atomic uint32_t inline_reasons;
static struct config config;
static _Atomic int state;

void config_load(void)
{
    loading = true;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        if (variables[i].kind != KIND_PATH)
            field_set(&config, &variables[i],
                      variables[i].fallback * (variables[i].kind == KIND_MICROS ? 1000 : 1));
    config_read(&config);
    loading = false;
    atomic_store(&state, UNREAD);
}

/* Not by pthread_once, which makes a system call. */
const struct config *config_get(void)
{
    int unread = UNREAD;

    if (likely(atomic_load_explicit(&state, memory_order_acquire) == READY))
        return &config;
    if (atomic_load(&state) == UNLOADED) /* called from a constructor ahead of ours */
        config_load();
    if (atomic_compare_exchange_strong(&state, &unread, READING)) {
        config_read(&config);
        const char *conf = secure_getenv("CUTIN_CONF");
        char text[160];

        while (conf_misspelt(&conf, text, sizeof(text)))
            log_line(LOG_WARN, "%s", text);
        for (size_t at = 0; setting_misspelt(&at, text, sizeof(text));)
            log_line(LOG_WARN, "%s", text);
        atomic_store_explicit(&state, READY, memory_order_release);
    }
    while (atomic_load_explicit(&state, memory_order_acquire) != READY)
        sched_yield(); /* another thread is reading a dozen variables */
    return &config;
}

void config_after_fork(void)
{
    int reading = READING;
    atomic_compare_exchange_strong(&state, &reading, UNREAD);
}
