/*
 * admission.c - of whose devices clients above are told, and how soon (see admission.h).
 */
#include "scheduler/peers/admission.h"

#include <stdlib.h>
#include <uthash.h>

#include "common/clock.h"
#include "scheduler/policy/permission.h"

/* A user's clients of a device, or, without one, the rate of all of his. */
struct account_key {
    const struct device *device;
    uint64_t uid;
};

struct account {
    struct account_key key;
    uint32_t told;
    uint64_t due_ns; /* of the next one, were there no burst */
    UT_hash_handle hh;
};

struct admission {
    struct account *accounts;
};

struct admission *admission_new(void)
{
    return calloc(1, sizeof(struct admission));
}

static void account_drop(struct admission *a, struct account *account)
{
    HASH_DEL(a->accounts, account);
    free(account);
}

void admission_free(struct admission *a)
{
    struct account *account, *next;

    if (!a)
        return;
    HASH_ITER (hh, a->accounts, account, next)
        account_drop(a, account);
    free(a);
}

static struct account *account_of(struct admission *a, uid_t uid, const struct device *device)
{
    struct account_key key = {device, uid};
    struct account *account;

    HASH_FIND(hh, a->accounts, &key, sizeof(key), account);
    if (account || !(account = calloc(1, sizeof(*account))))
        return account;
    account->key = key;
    HASH_ADD(hh, a->accounts, key, sizeof(key), account);
    return account;
}

/* One more of this user's clients, by the generic cell rate algorithm. */
static bool rate_take(struct account *user, uint64_t now)
{
    uint64_t due = user->due_ns > now ? user->due_ns : now;

    if (due - now > (ADMISSION_BURST - 1) * ADMISSION_NS)
        return false;
    user->due_ns = due + ADMISSION_NS;
    return true;
}

static bool any_told(const struct peer *p)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        if (p->device[slot].told)
            return true;
    return false;
}

enum admission_answer admission_ask(struct admission *a, const struct conf *conf, struct peer *p,
                                    uint32_t slot, uint64_t now_ns)
{
    struct peer_device *mine = &p->device[slot];
    struct account *device, *user;

    if (!permission_control(conf, &p->who)) {
        device = account_of(a, p->who.uid, mine->device);
        user = account_of(a, p->who.uid, NULL);
        if (!device || !user)
            return ADMISSION_LATER;
        if (device->told >= conf->clients_per_device)
            return ADMISSION_FULL;
        /* A page is mapped once, however many devices it is for. */
        if (!any_told(p) && !rate_take(user, now_ns))
            return ADMISSION_LATER;
        device->told++;
        mine->counted = true;
    }
    mine->told = true;
    return ADMISSION_NOW;
}

void admission_ban(struct admission *a, const struct peer *p, uint64_t now_ns)
{
    struct account *user = account_of(a, p->who.uid, NULL);

    if (user)
        user->due_ns = now_ns + ADMISSION_BAN_NS + ADMISSION_BURST * ADMISSION_NS;
}

/* Rates that have nothing to remember any more. */
static void forget_users(struct admission *a, uint64_t now)
{
    struct account *account, *next;

    HASH_ITER (hh, a->accounts, account, next)
        if (!account->told && account->due_ns <= now)
            account_drop(a, account);
}

void admission_leave(struct admission *a, struct peer *p)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++) {
        struct peer_device *mine = &p->device[slot];
        struct account *account = mine->counted ? account_of(a, p->who.uid, mine->device) : NULL;

        if (account)
            account->told--;
        mine->told = mine->counted = false;
    }
    forget_users(a, clock_ns());
}
