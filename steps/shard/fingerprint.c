/* steps/shard/fingerprint.c — libcrypto's Poly1305 (RFC 8439, section 2.5). One key is safe for
 * many messages here because no result is ever shown. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include "steps/shard/internal.h"

struct fingerprint {
	EVP_MAC_CTX *ctx;
	uint8_t key[FINGERPRINT_KEY_BYTES];
};

struct fingerprint *fingerprint_new(const uint8_t key[FINGERPRINT_KEY_BYTES])
{
	struct fingerprint *f = xcalloc(1, sizeof(*f));
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "POLY1305", NULL);

	memcpy(f->key, key, sizeof(f->key));
	f->ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	if (!f->ctx)
		mem_die(0); /* libcrypto's default provider has it, so only memory can be missing */
	return f;
}

void fingerprint_free(struct fingerprint *f)
{
	if (!f)
		return;
	EVP_MAC_CTX_free(f->ctx);
	free(f);
}

void fingerprint_begin(struct fingerprint *f)
{
	if (!EVP_MAC_init(f->ctx, f->key, sizeof(f->key), NULL))
		mem_die(0);
}

void fingerprint_add(struct fingerprint *f, const void *bytes, size_t n)
{
	EVP_MAC_update(f->ctx, bytes, n);
}

void fingerprint_end(struct fingerprint *f, uint8_t ret[FINGERPRINT_BYTES])
{
	size_t n;

	EVP_MAC_final(f->ctx, ret, &n, FINGERPRINT_BYTES);
}
