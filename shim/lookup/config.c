/*
 * config.c - the environment (see shim.h). A setting's own variable counts more than its key in
 * CUTIN_CONF.
 */
#include "shim/lookup/conf.h"
#include "shim/lookup/shim.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine_socket.h"

/* Words and numbers live in fields of four bytes (enums included). */
struct variable {
    const char *name;
    size_t offset, size; /* of the field in struct config */
    uint32_t unit;       /* the field gets the number times this; 0: a path */
    uint32_t fallback, least, most;
    const char *words; /* NULL: a number or a path */
};

#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
static const struct variable variables[] = {
#define CONFIG_WORD(name, field, fallback, words, help)                                            \
    {#name, FIELD(field), 1, fallback, 0, 0, words},
#define CONFIG_NUMBER(name, field, fallback, least, most, help)                                    \
    {#name, FIELD(field), 1, fallback, least, most, NULL},
#define CONFIG_MICROS(name, field, fallback, least, most, help)                                    \
    {#name, FIELD(field), 1000, fallback, least, most, NULL},
#define CONFIG_PATH(name, field, fallback, help) {#name, FIELD(field), 0, 0, 0, 0, NULL},
#include "shim/lookup/config.def"
};
enum { VARIABLES = sizeof(variables) / sizeof(*variables) };

static struct config config;
static bool loading; /* the first reading: warnings wait for the second */

/* Converts microseconds with up to three decimals to nanoseconds. */
static bool micros_read(const char *text, uint64_t least, uint64_t most, uint64_t *ns)
{
    size_t whole = strcspn(text, "."), decimals = text[whole] ? strlen(text + whole + 1) : 0;
    char digits[16];

    if (whole + 3 >= sizeof(digits) || decimals > 3 || (text[whole] && !decimals))
        return false;
    memcpy(digits, text, whole);
    memcpy(digits + whole, "000", 4);
    memcpy(digits + whole, text + whole + (decimals != 0), decimals);
    return whole && number_read(digits, least * 1000, most * 1000, ns);
}

/* `name`: how a message names the setting. */
static void value_read(const struct variable *v, const char *name, const char *text)
{
    char *field = (char *)&config + v->offset;
    uint32_t value = v->fallback * v->unit;
    uint64_t number;

    if (!v->unit) {
        if (strlen(text) < v->size)
            memcpy(field, text, strlen(text) + 1);
        else if (!loading)
            log_line(LOG_WARN, "%s=%.32s... is longer than %zu characters; using %s", name, text,
                     v->size - 1, field[0] ? field : "none");
        return;
    }
    if (v->words) {
        int index = word_index(v->words, text);
        const char *word = v->words; /* then that of the default */

        value = index >= 0 ? (uint32_t)index : value;
        for (uint32_t i = 0; i < v->fallback; i++)
            word += strcspn(word, " ") + 1;
        if (index < 0 && !loading)
            log_line(LOG_WARN, "%s=%.64s is not one of: %s; using %.*s", name, text, v->words,
                     (int)strcspn(word, " "), word);
    } else if ((v->unit > 1 ? micros_read : number_read)(text, v->least, v->most, &number)) {
        value = (uint32_t)number;
    } else if (!loading) {
        log_line(LOG_WARN, "%s=%.64s is not a number from %u to %u; using %u", name, text, v->least,
                 v->most, v->fallback);
    }
    memcpy(field, &value, sizeof(value));
}

/* Reads what is set in the environment; the rest stays. */
static void config_read(void)
{
    static bool given; /* CUTIN_SOCKET was set when the library was loaded */
    const char *conf = secure_getenv("CUTIN_CONF");
    struct conf_part part;

    if (!given) {
        /* Where the daemon listens: the machine's socket if there is one, else this user's. */
        const char *run = secure_getenv("XDG_RUNTIME_DIR");
        size_t size = sizeof(config.socket);
        int length = -1;

        if (run && run[0] == '/' && !machine_socket_first(run))
            length = snprintf(config.socket, size, "%s" USER_SOCKET, run);
        if (length < 0 || (size_t)length >= size)
            snprintf(config.socket, size, MACHINE_SOCKET);
    }
    given |= loading && !!secure_getenv("CUTIN_SOCKET");
    while (conf && conf_next(&conf, &part)) {
        /* Static: one thread reads, and programs may have small stacks. */
        static char text[sizeof(config.cpus) + 1];
        char name[64];

        snprintf(name, sizeof(name), "CUTIN_CONF: %.*s", (int)part.key_length, part.key);
        snprintf(text, sizeof(text), "%.*s", (int)part.value_length, part.value ? part.value : "");
        for (size_t i = 0; i < VARIABLES; i++)
            if (conf_sets(&part, variables[i].name))
                value_read(&variables[i], name, text);
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        const char *text = secure_getenv(variables[i].name);

        if (text)
            value_read(&variables[i], variables[i].name, text);
    }
    const char *injection = secure_getenv("CUDA_INJECTION64_PATH");
    const char *blocking = secure_getenv("CUDA_LAUNCH_BLOCKING");
    if (config.distance_ns)
        config.profile = PROFILE_OFF; /* times here do not fit other processes */
    if (blocking) { /* is set if atoi, which has a new name, too (text.c), would not return zero */
        blocking += strspn(blocking, " \t");
        blocking += strspn(blocking, "+-");
        blocking += strspn(blocking, "0");
    }
    if ((injection && *injection) || (blocking && *blocking >= '1' && *blocking <= '9'))
        atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_SET);
}

enum { UNLOADED, UNREAD, READING, READY };
_Atomic uint32_t inline_reasons;
static _Atomic int state;

void config_load(void)
{
    loading = true;
    for (const struct variable *v = variables; v < variables + VARIABLES; v++) {
        uint32_t value = v->fallback * v->unit;
        if (v->unit)
            memcpy((char *)&config + v->offset, &value, sizeof(value));
    }
    config_read();
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
        config_read();
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
