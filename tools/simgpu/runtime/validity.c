/* validity.c - the answer to the CUDA runtime's validity check; validity.h says where it comes
 * from. */
#include "tools/simgpu/runtime/validity.h"
#include "tools/simgpu/runtime/md2.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct validity_question) == 48, "digested as it lies in memory");
static_assert(sizeof(struct validity_device) == 28, "digested as it lies in memory");

static const uint8_t key[MD2_BYTES] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
                                       0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
/* For versions that end in 0 or in 1 the answer is a constant. */
static const uint64_t constant[2][2] = {
    {0x3341181c03cb675c, 0x8ed383aa1f4cd1e8},
    {0x1841181c03cb675c, 0x8ed383aa1f4cd1e8},
};

void validity_answer(const struct validity_question *q, const struct validity_device *devices,
                     int count, uint64_t answer[2])
{
    struct hmac_md2 h;
    uint8_t digest[MD2_BYTES];
    uint32_t kind = q->version % 10;
    if (kind < 2) {
        memcpy(answer, constant[kind], sizeof(constant[kind]));
        return;
    }
    hmac_md2_begin(&h, key);
    hmac_md2_add(&h, q, sizeof(*q));
    for (int i = 0; i < count; i++)
        hmac_md2_add(&h, &devices[i], sizeof(devices[i]));
    hmac_md2_end(&h, digest);
    memcpy(answer, digest, sizeof(digest));
}
