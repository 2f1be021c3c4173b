/*
 * md2.h - the MD2 message digest (RFC 1319) and its HMAC (RFC 2104). As cryptography MD2 has long
 * been broken. It is here because the CUDA runtime's validity check uses it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_MD2_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_MD2_H

#include <stddef.h>
#include <stdint.h>

enum { MD2_BYTES = 16 };

struct md2 {
    uint8_t state[48], checksum[MD2_BYTES], block[MD2_BYTES];
    size_t filled; /* bytes in block */
};

void md2_begin(struct md2 *m);
void md2_add(struct md2 *m, const void *data, size_t bytes);
void md2_end(struct md2 *m, uint8_t digest[MD2_BYTES]);

struct hmac_md2 {
    struct md2 inner;
    uint8_t key[MD2_BYTES];
};

/* The key is exactly one block. */
void hmac_md2_begin(struct hmac_md2 *h, const uint8_t key[MD2_BYTES]);
void hmac_md2_add(struct hmac_md2 *h, const void *data, size_t bytes);
void hmac_md2_end(struct hmac_md2 *h, uint8_t digest[MD2_BYTES]);

#endif
