/*
 * kernel_name.c - names of kernels as people read them (see kernel_name.h).
 */
#include "kernel_name.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/text.h"

#if HAVE_CXA_DEMANGLE
/* libstdc++'s, as <cxxabi.h> declares it. */
char *__cxa_demangle(const char *mangled, char *out, size_t *bytes, int *status);
#endif

enum { DEEPEST = 64, LEAST_WIDTH = 8, SHORT_ARGUMENT = 8 };

/* ---- brackets ------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* Returns the end of "operator" and its symbol, which may be a bracket. `at`: it is no operator. */
static const char *operator_skip(const char *text, const char *at)
{
    static const char word[] = "operator";
    static const char *const symbols[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<",
                                          ">>", "<=", ">=",  "->",  "<",   ">"};
    const char *end = at + sizeof(word) - 1;

    if (strncmp(at, word, sizeof(word) - 1) != 0 || (at > text && is_word(at[-1])))
        return at;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
        if (strncmp(end, symbols[i], strlen(symbols[i])) == 0)
            return end + strlen(symbols[i]);
    return at;
}

static char closing(char c)
{
    static const char brackets[] = "<>()[]{}";
    const char *at = c ? strchr(brackets, c) : NULL;

    return at && (at - brackets) % 2 == 0 ? at[1] : '\0';
}

/* Returns the end of the bracket that opens at `from`. NULL: no bracket closes it. */
static const char *bracket_end(const char *text, const char *from)
{
    char open[DEEPEST];
    int depth = 0;

    for (const char *at = from, *behind; *at; at = behind) {
        behind = operator_skip(text, at);
        if (behind != at)
            continue;
        behind = at + 1;
        if (closing(*at)) {
            if (depth == DEEPEST)
                return NULL;
            open[depth++] = closing(*at);
        } else if (depth && *at == open[depth - 1] && --depth == 0) {
            return behind;
        }
    }
    return NULL;
}

/* ---- what is left out ----------------------------------------------------------------------- */

static const char *skip_text(const char *at, const char *text)
{
    size_t n = strlen(text);

    return strncmp(at, text, n) == 0 ? at + n : at;
}

/* Skips the parameters of a function in which something is local, "f(int) const::{lambda...", and
 * those of a lambda, "{lambda(float)#1}". */
static const char *skip_scope(const char *text, const char *at)
{
    const char *end = *at == '(' ? bracket_end(text, at) : NULL, *behind;

    if (!end)
        return at;
    behind = skip_text(end, " const");
    return *behind == '#' || strncmp(behind, "::", 2) == 0 ? behind : at;
}

static const char *skip_noise(const char *text, const char *at)
{
    const char *behind = skip_text(at, "(anonymous namespace)::");

    if (behind == at && (behind = skip_text(at, "::operator()")) != at) {
        /* Between two functions, as in "f::operator()::g", it tells nothing. */
        if (*behind == '<')
            behind = bracket_end(text, behind);
        behind = behind ? skip_scope(text, behind) : at;
        behind = strncmp(behind, "::", 2) == 0 ? behind : at;
    }
    behind = behind != at ? behind : skip_scope(text, at);
    if (behind == at && strncmp(at, "[abi:", 5) == 0) /* "[abi:v1]" */
        behind = bracket_end(text, at);
    return behind ? behind : at;
}

/* In place. At the outermost level a space ends the return type, and parameters end the name. */
static void clean(char *text)
{
    char *out = text;
    int depth = 0;

    for (const char *at = text, *behind; *at; at = behind) {
        behind = skip_noise(text, at);
        if (behind != at)
            continue;
        if (depth == 0 && *at == '(')
            break;
        behind = operator_skip(text, at);
        if (behind == at) {
            depth += closing(*at) != '\0';
            depth -= !!strchr(">)]}", *at);
            behind++;
        }
        memmove(out, at, (size_t)(behind - at));
        out = depth == 0 && *at == ' ' ? text : out + (behind - at);
    }
    *out = '\0';
}

/* ---- shortening ----------------------------------------------------------------------------- */

/* What is kept: template arguments down to `depth`, and at the outermost level the first
 * `arguments`. `bare` drops the namespaces within arguments, `single` those in front. */
struct measure {
    int depth, arguments;
    bool bare, single;
};

struct writer {
    const char *text;
    struct measure keep;
    char *out;
    size_t n;
    int depth, arguments;
    size_t begin[DEEPEST]; /* start in `out` of the last argument of each depth */
};

static void write_text(struct writer *w, const char *from, size_t n)
{
    memcpy(w->out + w->n, from, n);
    w->n += n;
}

static const char *write_comma(struct writer *w, const char *at)
{
    const char *end = at;

    at += strspn(at, ", ");
    write_text(w, ", ", 2);
    if (w->depth < DEEPEST)
        w->begin[w->depth] = w->n;
    if (w->depth != 1 || ++w->arguments <= w->keep.arguments)
        return at;
    write_text(w, "...", 3);
    while (*end && *end != '>')
        end = closing(*end) && bracket_end(w->text, end) ? bracket_end(w->text, end) : end + 1;
    return end;
}

static const char *write_next(struct writer *w, const char *at)
{
    const char *behind = operator_skip(w->text, at);
    bool goes = w->depth ? w->keep.bare : w->keep.single && !memchr(w->out, '<', w->n);

    if (behind != at) {
        write_text(w, at, (size_t)(behind - at));
        return behind;
    }
    if (*at == '<') {
        /* Template arguments. */
        const char *end = bracket_end(w->text, at);
        bool brief =
            end && end - at <= SHORT_ARGUMENT + 2 && !memchr(at + 1, '<', (size_t)(end - at - 1));

        if (w->depth >= w->keep.depth && end && !(w->keep.depth && brief)) {
            write_text(w, "<...>", 5);
            return end;
        }
        write_text(w, at, 1);
        if (++w->depth == 1)
            w->arguments = 1;
        if (w->depth < DEEPEST)
            w->begin[w->depth] = w->n;
        return at + 1;
    }
    if (*at == ',' && w->depth)
        return write_comma(w, at);
    if (strncmp(at, "::", 2) == 0) {
        /* The namespace goes, unless what follows has no name of its own. */
        if (goes && w->depth < DEEPEST && is_word(at[2]) && strncmp(at + 2, "operator", 8) != 0)
            w->n = w->begin[w->depth];
        else
            write_text(w, at, 2);
        return at + 2;
    }
    if (*at == '>' && w->depth)
        w->depth--;
    if (*at == ' ' && at[1] == '>') /* "> >" */
        return at + 1;
    write_text(w, at, 1);
    return at + 1;
}

/* Cuts the end off, and closes the template arguments that it cuts through. */
static void cut(char *text, size_t width)
{
    const char *open = strchr(text, '<');
    bool within = open && open - text < (ptrdiff_t)width - LEAST_WIDTH;

    memcpy(text + width - (within ? 4 : 3), within ? "...>" : "...", within ? 5 : 4);
}

static char *shorten(const char *text, size_t width)
{
    static const struct measure measures[] = {
        {DEEPEST, INT_MAX, false, false},
        {3, INT_MAX, false, false},
        {3, INT_MAX, true, false},
        {2, INT_MAX, false, false},
        {2, INT_MAX, true, false},
        {2, INT_MAX, true, true},
        {1, INT_MAX, true, false},
        {1, INT_MAX, true, true},
        {1, 3, true, true},
        {1, 2, true, true},
    };
    /* No insertion is more than twice as long as what it replaces. */
    char *out = malloc(2 * strlen(text) + LEAST_WIDTH);

    for (size_t i = 0; out && i < sizeof(measures) / sizeof(*measures); i++) {
        struct writer w = {.text = text, .keep = measures[i], .out = out};

        for (const char *at = text; *at;)
            at = write_next(&w, at);
        out[w.n] = '\0';
        if (w.n <= width)
            return out;
    }
    if (out)
        cut(out, width);
    return out;
}

/* Writes "N2at4cuda6detail3fooI" as at::cuda::detail::foo, or its last part alone. Returns what
 * follows. */
static const char *qualified_name(const char *at, bool last, char **out)
{
    char *begin = *out, *end;
    const char *next;

    at += *at == 'N';
    while (*at == 'S' && (next = strchr(at, '_'))) /* a namespace that was named before */
        at = next + 1;
    at += *at == 'L';
    while (isdigit((unsigned char)*at)) {
        unsigned long n = strtoul(at, &end, 10);

        if (n == 0 || strnlen(end, n) < n)
            break;
        memcpy(*out, end, n);
        *out += n;
        at = end + n;
        at += *at == 'L';
        if (!isdigit((unsigned char)*at))
            break;
        if (last)
            *out = begin;
        else
            *out = stpcpy(*out, "::");
    }
    return at;
}

/* Outlines a name that is too much for libstdc++, as some of CUTLASS are: the name itself, its
 * first template argument, and the first argument of that:
 * "cutlass::device_kernel<GemmUniversal<tuple<...>, ...>, ...>". NULL: nothing is known. */
static char *outline(const char *raw)
{
    enum { NESTED = 3 };
    char *text = malloc(2 * strlen(raw) + 64), *out = text;
    const char *at = raw + 2;
    int nested = 0;

    if (!text)
        return NULL;
    at = qualified_name(at, false, &out);
    while (out > text && *at == 'I' && nested < NESTED) {
        char *open = out;

        *out++ = '<';
        at = qualified_name(at + 1, true, &out);
        if (out == open + 1 || *at != 'I') {
            out = stpcpy(open, "<...>");
            break;
        }
        nested++;
    }
    if (nested == NESTED && *at == 'I')
        out = stpcpy(out, "<...>");
    for (; nested; nested--)
        out = stpcpy(out, ", ...>");
    *out = '\0';
    if (out > text)
        return text;
    free(text);
    return NULL;
}

/* Takes ownership of `text`. */
static char *demangle(char *text)
{
    static const char between[] = "}::{lambda#";
    char *plain = NULL;
    size_t n;

    if (strncmp(text, "_Z", 2) != 0)
        return text;
#if HAVE_CXA_DEMANGLE
    plain = __cxa_demangle(text, NULL, NULL, NULL);
#endif
    if (!plain)
        plain = outline(text);
    if (!plain)
        return text;
    free(text);
    clean(plain);
    /* Lambdas within lambdas: "{lambda#1}::{lambda#4}" becomes "{lambda#1.4}". */
    for (char *at = plain; (at = strstr(at, between));) {
        *at++ = '.';
        memmove(at, at + sizeof(between) - 2, strlen(at + sizeof(between) - 2) + 1);
    }
    /* Rust's older mangling ends a name with a hash: "::h0123456789abcdef". */
    n = strlen(plain);
    if (n > 19 && strncmp(plain + n - 19, "::h", 3) == 0 &&
        strspn(plain + n - 16, "0123456789abcdef") == 16)
        plain[n - 19] = '\0';
    return plain;
}

char *kernel_name_make(const char *raw, size_t width)
{
    char *text = strdup(raw), *out;
    bool structured;

    if (!text)
        return NULL;
    structured = strncmp(printable(text), "_Z", 2) == 0 || strchr(text, '<');
    text = demangle(text);
    if (width < LEAST_WIDTH)
        width = LEAST_WIDTH;
    if (structured) {
        out = shorten(text, width);
        free(text);
        return out;
    }
    if (strlen(text) > width)
        cut(text, width);
    return text;
}

struct kept {
    UT_hash_handle hh; /* by raw name and width */
    char *shown;
    char key[];
};

const char *kernel_name(const char *raw, size_t width, bool mangled)
{
    static struct kept *all;
    size_t bytes = sizeof(width) + strlen(raw) + 1;
    struct kept *k = malloc(sizeof(*k) + bytes), *known;

    if (!k)
        return "?";
    if (mangled)
        width = 0; /* a width that no shortened name has */
    memcpy(k->key, &width, sizeof(width));
    memcpy(k->key + sizeof(width), raw, bytes - sizeof(width));
    HASH_FIND(hh, all, k->key, bytes, known);
    if (known) {
        free(k);
        return known->shown;
    }
    k->shown = mangled ? strdup(raw) : kernel_name_make(raw, width);
    if (mangled && k->shown)
        printable(k->shown);
    HASH_ADD_KEYPTR(hh, all, k->key, bytes, k);
    return k->shown ? k->shown : "?";
}
