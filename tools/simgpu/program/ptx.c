/*
 * ptx.c - reads PTX as far as users of a driver can see its contents: entries, their parameters,
 * launch bounds and static shared memory, and global variables. Of instructions only the brackets
 * are checked.
 */
#include "tools/simgpu/program/image.h"

#include <ctype.h>

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_PUNCTUATION };

struct token {
    enum token_kind kind;
    const char *text;
    size_t length;
};

struct parser {
    const char *at, *end;
    struct token token; /* the current one */
    struct image *image;
    size_t module_smem; /* .shared outside of entries: every entry has it */
    bool out_of_memory;
};

/* ---- tokens ---------------------------------------------------------------------------------- */

static void skip_line(struct parser *p)
{
    while (p->at < p->end && *p->at != '\n')
        p->at++;
}

static bool skip_comment(struct parser *p)
{
    if (p->end - p->at < 2 || p->at[0] != '/')
        return false;
    if (p->at[1] == '/') {
        skip_line(p);
        return true;
    }
    if (p->at[1] != '*')
        return false;
    const char *close = memmem(p->at + 2, (size_t)(p->end - p->at - 2), "*/", 2);
    p->at = close ? close + 2 : p->end;
    return true;
}

static void skip_blank(struct parser *p)
{
    for (;;) {
        while (p->at < p->end && isspace((unsigned char)*p->at))
            p->at++;
        if (p->at == p->end || !skip_comment(p))
            return;
    }
}

static bool word_begins(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == '@';
}

static bool word_goes_on(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static void token_take(struct parser *p, enum token_kind kind, const char *from)
{
    p->token = (struct token){kind, from, (size_t)(p->at - from)};
}

static void next(struct parser *p)
{
    skip_blank(p);
    const char *from = p->at;
    if (from == p->end) {
        token_take(p, TOKEN_END, from);
    } else if (*from == '"') {
        p->at++;
        while (p->at < p->end && *p->at != '"')
            p->at++;
        p->at += p->at < p->end;
        token_take(p, TOKEN_STRING, from);
    } else if (isdigit((unsigned char)*from)) {
        while (p->at < p->end && (word_goes_on(*p->at) || *p->at == '.'))
            p->at++;
        token_take(p, TOKEN_NUMBER, from);
    } else if (word_begins(*from)) {
        p->at++;
        while (p->at < p->end && word_goes_on(*p->at))
            p->at++;
        token_take(p, TOKEN_WORD, from);
    } else {
        p->at++;
        token_take(p, TOKEN_PUNCTUATION, from);
    }
}

static bool is(const struct parser *p, const char *text)
{
    return p->token.length == strlen(text) && !memcmp(p->token.text, text, p->token.length);
}

static bool took(struct parser *p, const char *text)
{
    if (!is(p, text))
        return false;
    next(p);
    return true;
}

static bool number(struct parser *p, size_t *value)
{
    if (p->token.kind != TOKEN_NUMBER)
        return false;
    *value = strtoull(p->token.text, NULL, 0);
    next(p);
    return true;
}

/* Skips a stretch in brackets. The current token is the opening bracket. */
static bool skip_brackets(struct parser *p, const char *open, const char *close)
{
    size_t depth = 0;
    do {
        if (p->token.kind == TOKEN_END)
            return false;
        depth += is(p, open);
        depth -= is(p, close);
        next(p);
    } while (depth);
    return true;
}

/* ---- types and declarations ------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    {".b8", 1},    {".u8", 1},     {".s8", 1},      {".b16", 2},        {".u16", 2}, {".s16", 2},
    {".f16", 2},   {".bf16", 2},   {".b32", 4},     {".u32", 4},        {".s32", 4}, {".f32", 4},
    {".f16x2", 4}, {".b64", 8},    {".u64", 8},     {".s64", 8},        {".f64", 8}, {".b128", 16},
    {".pred", 1},  {".texref", 8}, {".surfref", 8}, {".samplerref", 8},
};

struct declaration {
    struct token name;
    size_t element, align, bytes;
    bool managed;
};

static size_t type_bytes(const struct parser *p)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (is(p, types[i].name))
            return types[i].bytes;
    return 0;
}

/* What may stand in front of the type: .align N, vectors, pointer properties, attributes. */
static bool qualifier(struct parser *p, struct declaration *d, size_t *vector)
{
    if (took(p, ".align"))
        return number(p, &d->align);
    if (took(p, ".attribute")) {
        d->managed = memmem(p->at, (size_t)(p->end - p->at) < 24 ? (size_t)(p->end - p->at) : 24,
                            "managed", 7);
        return skip_brackets(p, "(", ")");
    }
    if (is(p, ".v2") || is(p, ".v4"))
        *vector = (size_t)(p->token.text[2] - '0');
    next(p);
    return true;
}

/* As in [4][2]. An empty first dimension is an extern array of unknown size. */
static bool dimensions(struct parser *p, size_t *count)
{
    while (took(p, "[")) {
        size_t n = 0;
        if (!is(p, "]") && !number(p, &n))
            return false;
        *count *= n;
        if (!took(p, "]"))
            return false;
    }
    return true;
}

/* What follows the state space: qualifiers, type, name, dimensions. */
static bool declaration(struct parser *p, struct declaration *d)
{
    size_t vector = 1, count = 1;
    *d = (struct declaration){.align = 1};
    while (p->token.kind == TOKEN_WORD && *p->token.text == '.') {
        size_t bytes = type_bytes(p);
        if (bytes) {
            d->element = bytes;
            next(p);
        } else if (!qualifier(p, d, &vector)) {
            return false;
        }
    }
    if (!d->element || p->token.kind != TOKEN_WORD)
        return false;
    d->name = p->token;
    next(p);
    if (!dimensions(p, &count))
        return false;
    d->bytes = d->element * vector * count;
    size_t natural = d->element * vector;
    d->align = d->align > natural ? d->align : natural;
    return true;
}

/* ---- entries --------------------------------------------------------------------------------- */

static bool parameters(struct parser *p, struct image_entry *e)
{
    size_t at = 0;
    while (!is(p, ")")) {
        struct declaration d;
        if (!took(p, ".param") || !declaration(p, &d))
            return false;
        at = (at + d.align - 1) / d.align * d.align;
        if (!entry_add_param(e, at, d.bytes)) {
            p->out_of_memory = true;
            return false;
        }
        at += d.bytes;
        if (!is(p, ")") && !took(p, ","))
            return false;
    }
    next(p);
    e->packed_bytes = at;
    return true;
}

/* .maxntid 256, 1, 1 and the like. Other performance directives are skipped. */
static bool bounds(struct parser *p, struct image_entry *e)
{
    while (!is(p, "{") && !is(p, ";")) {
        if (p->token.kind == TOKEN_END)
            return false;
        bool threads = is(p, ".maxntid") || is(p, ".reqntid");
        next(p);
        if (!threads)
            continue;
        size_t total = 1, n;
        do {
            if (!number(p, &n))
                return false;
            total *= n;
        } while (took(p, ","));
        if (total > 0 && total < e->max_threads)
            e->max_threads = (unsigned int)total;
    }
    return true;
}

/* Skips the body, and adds up the shared and local memory that it declares. A declaration begins
 * with .shared or .local; inside a statement these are parts of an instruction, as in ld.shared. */
static bool body(struct parser *p, struct image_entry *e)
{
    size_t depth = 0;
    bool begins = true;
    do {
        if (p->token.kind == TOKEN_END)
            return false;
        depth += is(p, "{");
        depth -= is(p, "}");
        size_t *memory = begins && is(p, ".shared")  ? &e->static_smem
                         : begins && is(p, ".local") ? &e->local_bytes
                                                     : NULL;
        begins = is(p, "{") || is(p, "}") || is(p, ";") || is(p, ":");
        next(p);
        struct declaration d;
        if (memory && !declaration(p, &d))
            return false;
        if (memory)
            *memory = (*memory + d.align - 1) / d.align * d.align + d.bytes;
    } while (depth);
    return true;
}

/* An external entry is read but not kept. */
static bool entry(struct parser *p, bool external)
{
    struct image *into = p->image;
    if (p->token.kind != TOKEN_WORD)
        return false;
    struct image_entry *e = image_add_entry(into, p->token.text, p->token.length);
    if (!e) {
        p->out_of_memory = true;
        return false;
    }
    next(p);
    bool good = (!took(p, "(") || parameters(p, e)) && bounds(p, e);
    if (good)
        good = is(p, ";") ? (next(p), true) : body(p, e);
    if (external)
        free(into->entries[--into->entry_count].params);
    return good;
}

/* This also ends a prototype: XLA writes it without a semicolon, and the driver accepts that. */
static bool directive_begins(const struct parser *p)
{
    static const char *const words[] = {".visible", ".weak",   ".extern", ".common", ".entry",
                                        ".func",    ".global", ".const",  ".section"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (is(p, words[i]))
            return true;
    return false;
}

/* .func (ret) name (params) { body } or ; */
static bool function(struct parser *p, bool external)
{
    struct image_entry ignored = {0};
    while (!is(p, "{") && !is(p, ";")) {
        if (external && directive_begins(p))
            return true;
        if (p->token.kind == TOKEN_END)
            return false;
        next(p);
    }
    if (took(p, ";"))
        return true;
    return body(p, &ignored);
}

/* ---- variables ------------------------------------------------------------------------------- */

/* As in 5, -5, 0f3F800000, 0d...: takes as many bytes as the element has. */
static void initial_value(struct parser *p, bool negative, unsigned char *to, size_t bytes)
{
    const char *text = p->token.text;
    bool hex_float = text[0] == '0' && p->token.length > 2 && strchr("fFdD", text[1]);
    uint64_t value = hex_float ? strtoull(text + 2, NULL, 16) : strtoull(text, NULL, 0);
    if (negative)
        value = -value;
    memcpy(to, &value, bytes < sizeof(value) ? bytes : sizeof(value));
}

/* Reads up to the semicolon. Numbers fill the variable element by element. */
static bool initialiser(struct parser *p, const struct declaration *d, struct image_global *g)
{
    size_t at = 0;
    bool negative = false;
    g->initial = d->bytes ? calloc(1, d->bytes) : NULL;
    while (!is(p, ";")) {
        if (p->token.kind == TOKEN_END)
            return false;
        if (p->token.kind == TOKEN_NUMBER && g->initial && at + d->element <= d->bytes) {
            initial_value(p, negative, (unsigned char *)g->initial + at, d->element);
            at += d->element;
        }
        negative = is(p, "-");
        next(p);
    }
    return true;
}

static bool variable(struct parser *p, bool external, bool constant)
{
    do {
        struct declaration d;
        if (!declaration(p, &d))
            return false;
        if (external)
            continue;
        struct image_global *g = image_add_global(p->image, d.name.text, d.name.length);
        if (!g) {
            p->out_of_memory = true;
            return false;
        }
        g->bytes = d.bytes;
        g->managed = d.managed;
        p->image->const_bytes += constant ? d.bytes : 0;
        if (took(p, "=") && !initialiser(p, &d, g))
            return false;
    } while (took(p, ","));
    return took(p, ";");
}

static bool module_shared(struct parser *p, bool external)
{
    struct declaration d;
    if (!declaration(p, &d))
        return false;
    if (!external)
        p->module_smem += d.bytes;
    return took(p, ";");
}

/* ---- the module ------------------------------------------------------------------------------ */

static bool targets(struct parser *p)
{
    do {
        if (p->token.kind != TOKEN_WORD)
            return false;
        if (p->token.length > 3 && !memcmp(p->token.text, "sm_", 3))
            p->image->ptx_arch = (unsigned int)strtoul(p->token.text + 3, NULL, 10);
        next(p);
    } while (took(p, ","));
    return true;
}

static bool skip_to(struct parser *p, const char *text)
{
    while (!is(p, text)) {
        if (p->token.kind == TOKEN_END)
            return false;
        next(p);
    }
    return true;
}

static bool directive(struct parser *p)
{
    bool external = false;
    size_t version;
    while (is(p, ".visible") || is(p, ".weak") || is(p, ".extern") || is(p, ".common")) {
        external = is(p, ".extern");
        next(p);
    }
    if (took(p, ".entry"))
        return entry(p, external);
    if (took(p, ".func"))
        return function(p, external);
    bool constant = is(p, ".const");
    if (took(p, ".global") || took(p, ".const"))
        return variable(p, external, constant);
    if (took(p, ".shared"))
        return module_shared(p, external);
    if (took(p, ".version") || took(p, ".address_size"))
        return number(p, &version);
    if (took(p, ".target"))
        return targets(p);
    if (took(p, ".section"))
        return skip_to(p, "{") && skip_brackets(p, "{", "}");
    if (took(p, ".pragma") || took(p, ".alias"))
        return skip_to(p, ";") && took(p, ";");
    bool line = is(p, ".file") || is(p, ".loc");
    if (line) {
        skip_line(p);
        next(p);
    }
    return line;
}

CUresult ptx_parse(const char *text, size_t bytes, struct image *into)
{
    struct parser p = {.at = text, .end = text + strnlen(text, bytes), .image = into};
    next(&p);
    bool good = is(&p, ".version");
    while (good && p.token.kind != TOKEN_END)
        good = directive(&p);
    for (size_t i = 0; i < into->entry_count; i++)
        into->entries[i].static_smem += p.module_smem;
    if (p.out_of_memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}
