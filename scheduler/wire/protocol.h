/*
 * protocol.h - the messages between clients and the daemon.
 *
 * One message is one packet of a UNIX SOCK_SEQPACKET socket: a header with the message's size, the
 * protocol's version and a type, then fixed fields, zero padded. Two messages carry one descriptor.
 * A message is believed only after message_check has passed it: size, type, version, direction, and
 * the bounds of every field.
 *
 * Releases of one version of the protocol talk to each other (docs/compatibility.md). A later
 * release may append fields to a message, where 0 means what was before them, and add types. An
 * earlier release reads as much of a message as it knows. Fields that an earlier one did not send
 * count as 0. An unknown question is answered DONE with -EOPNOTSUPP; an unknown answer is ignored.
 *
 * A conversation:
 *   client  HELLO -> daemon  WELCOME + own page
 *           DEVICE ->        BIT (the bit by which it may hold others. Later without one: a higher
 *                            level has it; the client answers BIT once none of its threads writes
 *                            it any more);
 *                            DONE with -EUSERS: no client can hold this one on that device,
 *                            because its user has too many clients there
 *                            JOIN + page of a client below, again without it when its slots change
 *           JOINED ->
 *                            LEAVE when that client has gone
 *           LEVEL ->         LEVEL, also unasked
 *           LIST ->          ROW ..., DONE
 *           STOP ->          DONE, then the daemon ends
 *                            BEAT, if the client's page has had no beat of late: asks for one
 *           LIFTED ->        BIT once more, to each client whose bits in the sender's page are
 *                            not as they should be
 *           CONTROL ->       DONE; and REMOTE to the client that it is about, which carries it out
 *                            or, if the daemon does that, tells it to the next daemon
 */
#ifndef CUTIN_SCHEDULER_WIRE_PROTOCOL_H
#define CUTIN_SCHEDULER_WIRE_PROTOCOL_H

#include "common/bounds.h"
#include "scheduler/wire/page.h"

#define PROTOCOL_VERSION          10u
#define PROTOCOL_NO_SLOT          0xffu
#define PROTOCOL_NO_BIT           0xffu
#define PROTOCOL_TEXT             320u
#define PROTOCOL_DEADLINE_MOST_MS 3600000u

struct message_header {
    uint32_t size; /* of the whole message */
    uint16_t type;
    uint16_t version;
};

struct message_hello {
    struct message_header header;
    uint32_t level, lowest;
    uint32_t weight;      /* 0 = 1 */
    uint32_t deadline_ms; /* of its requests; 0 = not given. If given, its streams have queues */
    uint32_t flat;        /* 1: all of its streams have its level and look at the word of level 0 */
    uint32_t bounded;     /* 1: it enforces a bound on the length of its holds itself */
    /* The orders for this client that a daemon before this one was given. */
    uint32_t remote_level; /* level + 1; 0 = nothing */
    uint32_t paused;
    char name[PAGE_NAME];
};

struct message_welcome {
    struct message_header header;
    uint64_t client;
    uint32_t level;             /* granted */
    uint32_t refused;           /* 1: the user lacks the permission for the level asked for */
    uint32_t share_percent;     /* least share of best effort, see hold_limit.h */
    uint32_t asks;              /* 1: the daemon sends BEAT if a beat is late */
    char reason[PROTOCOL_TEXT]; /* if refused: why, and what would grant it */
};

struct message_device {
    struct message_header header;
    uint32_t slot;
    uint32_t reserved;
    uint8_t uuid[16];
};

struct message_bit {
    struct message_header header;
    uint32_t slot;
    uint32_t bit; /* 0..27, or PROTOCOL_NO_BIT: all taken */
};

/* A client below the receiver. `words[level]` are the words of its page that work of `level` holds,
 * as page_write_bit takes them. `slot[n]` is its index of the receiver's device number n. */
struct message_join {
    struct message_header header;
    uint64_t client;
    uint8_t words[PAGE_LEVELS];
    uint32_t with_page; /* 1: the descriptor of its page comes along */
    uint8_t slot[PAGE_DEVICES];
};

struct message_client {
    struct message_header header;
    uint64_t client;
};

struct message_level {
    struct message_header header;
    uint32_t level;
    uint32_t refused;
    uint32_t reserved[2];
    char reason[PROTOCOL_TEXT];
};

/* An order for running clients: for the one with this id or, if that is 0, for all with this
 * process id, as the daemon sees it. */
struct message_control {
    struct message_header header;
    uint64_t client;
    int32_t pid;
    uint32_t kind; /* enum control_kind */
    uint32_t value;
    uint32_t reserved;
};

/* Names the wanted policy or, with "", asks for the current one. The answer is the current one. */
struct message_policy {
    struct message_header header;
    char name[PAGE_NAME];
};

/* An order that the daemon passes to the client. */
struct message_remote {
    struct message_header header;
    uint32_t kind; /* enum control_kind */
    uint32_t value;
};

struct message_row_device {
    uint8_t uuid[16];
    uint32_t active;
    uint32_t held[PAGE_LEVELS];
    uint32_t bit;
    uint64_t held_for_ns; /* for how long other clients have held it without a break */
    uint32_t zero;
    char io_kernel[PAGE_KERNEL_SIZE];
#define ROW_COUNTER(field, help) uint64_t field;
    PAGE_COUNTERS(ROW_COUNTER)
#undef ROW_COUNTER
};

struct message_row {
    struct message_header header;
    uint64_t client;
    int32_t pid;
    uint32_t uid;
    uint32_t asked, level, lowest;
    uint32_t above, below;
    uint32_t devices;
    uint64_t heartbeat_age_ms;
    uint32_t weight;
    uint32_t state;  /* ROW_* */
    uint64_t age_ms; /* of its counters */
    char name[PAGE_NAME];
    struct message_row_device device[PAGE_DEVICES];
#define ROW_TIME(field, help) uint32_t field##_times[HISTOGRAM_BUCKETS];
    PAGE_TIMES(ROW_TIME)
#undef ROW_TIME
};

struct message_done {
    struct message_header header;
    int32_t error; /* 0 or a negative errno */
    uint32_t count;
};

/* X(TYPE, number, direction, struct, member, bytes). Numbers never change. `bytes` is how long the
 * message was in the first release that had it. */
#define MESSAGES(X)                                                                                \
    X(HELLO, 1, TO_DAEMON, message_hello, hello, 56)                                               \
    X(WELCOME, 2, TO_CLIENT, message_welcome, welcome, 352)                                        \
    X(DEVICE, 3, TO_DAEMON, message_device, device, 32)                                            \
    X(BIT, 4, TO_BOTH, message_bit, bit, 16)                                                       \
    X(JOIN, 5, TO_CLIENT, message_join, join, 40)                                                  \
    X(JOINED, 6, TO_DAEMON, message_client, joined, 16)                                            \
    X(LEAVE, 7, TO_CLIENT, message_client, leave, 16)                                              \
    X(LEVEL, 8, TO_CLIENT, message_level, level, 344)                                              \
    X(LIST, 9, TO_DAEMON, message_header, list, 8)                                                 \
    X(ROW, 10, TO_CLIENT, message_row, row, 88 + 16 * 208 + 2 * 384)                               \
    X(DONE, 11, TO_CLIENT, message_done, done, 16)                                                 \
    X(STOP, 12, TO_DAEMON, message_header, stop, 8)                                                \
    X(CONTROL, 13, TO_DAEMON, message_control, control, 32)                                        \
    X(REMOTE, 14, TO_CLIENT, message_remote, remote, 16)                                           \
    X(POLICY, 15, TO_BOTH, message_policy, policy, 24)                                             \
    X(LIFTED, 16, TO_DAEMON, message_header, lifted, 8)                                            \
    X(BEAT, 17, TO_CLIENT, message_header, beat, 8)

enum message_type {
#define MESSAGE_TYPE(type, number, direction, layout, member, bytes) MESSAGE_##type = number,
    MESSAGES(MESSAGE_TYPE)
#undef MESSAGE_TYPE
        MESSAGE_TYPES
};

/* X(NAME, least, most). Numbers never change. */
#define CONTROL_KINDS(X)                                                                           \
    X(LEVEL, 0, PAGE_LEVELS - 1)                                                                   \
    X(WEIGHT, 1, WEIGHT_MOST)                                                                      \
    X(BUDGET_US, 1, BUDGET_US_MOST)                                                                \
    X(DEPTH, 1, DEPTH_MOST)                                                                        \
    X(PAUSE, 0, 0)                                                                                 \
    X(RESUME, 0, 0)                                                                                \
    X(RESET, 0, UINT32_MAX) /* a stream's number, or CONTROL_ALL_STREAMS */

enum control_kind {
#define CONTROL_KIND(name, least, most) CONTROL_##name,
    CONTROL_KINDS(CONTROL_KIND)
#undef CONTROL_KIND
        CONTROL_KIND_COUNT
};
#define CONTROL_ALL_STREAMS UINT32_MAX

/* Paused by the administrator; stopped by a signal; its streams have queues; some of its streams
 * are stuck (page.h). */
enum { ROW_PAUSED = 1, ROW_STOPPED = 2, ROW_QUEUES = 4, ROW_STUCK = 8 };

enum message_direction { TO_DAEMON = 1, TO_CLIENT = 2, TO_BOTH = 3 };

/* The copies with deliberate bugs (common/mutant.h) also stand for a later release: all messages
 * that they send are longer by this. */
#ifdef CUTIN_MUTANTS
#define PROTOCOL_LATER 64u
#else
#define PROTOCOL_LATER 0u
#endif

union message {
    struct message_header header;
#define MESSAGE_MEMBER(type, number, direction, layout, member, bytes)                             \
    struct layout member;                                                                          \
    static_assert(sizeof(struct layout) == (bytes), #layout);
    MESSAGES(MESSAGE_MEMBER)
#undef MESSAGE_MEMBER
    char most[sizeof(struct message_row) + PROTOCOL_LATER];
};

static_assert(sizeof(struct message_header) == 8, "message_header");
static_assert(sizeof(struct message_row_device) == 208, "message_row_device");

/* Whether this kind of control may have this value. */
bool control_value_ok(uint32_t kind, uint32_t value);
/* Zeroes the message and fills its header. */
void message_init(union message *m, enum message_type type);
/* Checks a message of `received` bytes, of which *m has the first, from a side that sends in
 * `direction`. Makes it as long as this release knows it. Returns 0; -EPROTO for another version of
 * the protocol; -EOPNOTSUPP for a type, or a kind of control, that only later releases know;
 * -EBADMSG for anything else. */
int message_check(union message *m, size_t received, enum message_direction direction);

/* Sends one message, with `fd` unless it is -1. Never blocks, never raises SIGPIPE. Returns 0 or
 * -errno (-EAGAIN: the socket is full). */
int message_send(int socket, const union message *m, int fd);
/* Receives and checks one message. `fd` NULL: descriptors that come along are not taken. Returns 0,
 * -EAGAIN, -ECONNRESET at the end, what message_check says, or another -errno. *fd is -1 or belongs
 * to the caller. */
int message_receive(int socket, enum message_direction direction, union message *m, int *fd);

#endif
