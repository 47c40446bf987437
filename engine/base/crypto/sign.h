/* engine/base/crypto/sign.h — Ed25519 signatures (RFC 8032).
 *
 * A public key as text is `ed25519:` and its 32 bytes in base64. A private key is a PEM file
 * without a passphrase, as `openssl genpkey -algorithm ed25519` writes it. The caller must own it,
 * and no other user may read it. A loaded key doesn't change, so any thread may sign.
 */
#ifndef CAIRN_BASE_CRYPTO_SIGN_H
#define CAIRN_BASE_CRYPTO_SIGN_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/macros.h"
#include "base/text/str.h"

#define SIGN_KEY_BYTES       32
#define SIGN_SIGNATURE_BYTES 64

struct sign_key;
/* ERR_NOT_FOUND: there is no such file; ERR_INVALID: the file is wrong; the message says what to
 * do. */
int sign_key_load(const char *path, struct sign_key **ret, struct err *err);
void sign_key_free(struct sign_key *k); /* NULL is fine */
static inline void sign_key_freep(struct sign_key **k)
{
	sign_key_free(*k);
}
const uint8_t *sign_key_public(const struct sign_key *k); /* SIGN_KEY_BYTES */

void sign_bytes(const struct sign_key *k, const void *bytes, size_t n,
		uint8_t ret[SIGN_SIGNATURE_BYTES]);
bool sign_verify(const uint8_t public_key[SIGN_KEY_BYTES], const void *bytes, size_t n,
		 const uint8_t signature[SIGN_SIGNATURE_BYTES]);

void sign_add_public(struct str *out, const uint8_t public_key[SIGN_KEY_BYTES]);
bool sign_parse_public(const char *text, size_t n, uint8_t ret[SIGN_KEY_BYTES]);

#endif
