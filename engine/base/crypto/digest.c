/* engine/base/crypto/digest.c — SHA-256, and the text forms of digests.
 *
 * By libcrypto's own low-level functions rather than EVP. Both reach the same assembly (SHA
 * extensions where the cpu has them), but EVP needs a fetched algorithm and a context per thread,
 * and takes a tenth longer for the ~300-byte records that keys are made of even when both are kept.
 * libcrypto 3 marks these functions as deprecated and keeps them. They rely on what
 * find_instructions() does when the program starts. */
#include "base/crypto/digest.h"
#include <stdlib.h>
#include "base/text/str.h"

#define OPENSSL_SUPPRESS_DEPRECATED 1
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include "base/mem.h"

_Static_assert(SHA256_DIGEST_LENGTH == DIGEST_BYTES, "SHA-256 has 32 bytes");

/* libcrypto finds out what the cpu can do in the `.init` section of its assembly. A static program
 * of musl that zig links doesn't run that section, and would hash with plain instructions, five
 * times slower. Where it has run, this does nothing. Nothing of libcrypto is cleaned up at exit:
 * workers may still use it. */
__attribute__((constructor)) static void find_instructions(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

bool digest_is_by_cpu(void)
{
	const char *facts = OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS), *at;

#if defined(__x86_64__)
	/* OPENSSL_ia32cap=A:B: the low half of B is EBX of cpuid's leaf 7 (OPENSSL_ia32cap(3)). */
	at = facts ? strstr(facts, "OPENSSL_ia32cap=") : NULL;
	at = at ? strchr(at, ':') : NULL;
	return at && strtoull(at + 1, NULL, 16) & (1u << 29);
#elif defined(__aarch64__)
	/* ARMV8_SHA256 of OpenSSL's arm_arch.h. */
	at = facts ? strstr(facts, "OPENSSL_armcap=") : NULL;
	return at && strtoull(at + strlen("OPENSSL_armcap="), NULL, 16) & (1u << 4);
#else
	(void)at;
	return false;
#endif
}

void digest_bytes(const void *bytes, size_t n, struct digest *ret)
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, bytes, n);
	SHA256_Final(ret->b, &ctx);
}

void digest_hmac(const void *key, size_t key_n, const void *bytes, size_t n, struct digest *ret)
{
	unsigned len = 0;

	if (!HMAC(EVP_sha256(), key, (int)key_n, bytes, n, ret->b, &len) || len != DIGEST_BYTES)
		mem_die(0); /* libcrypto without SHA-256 or memory */
}

struct digester {
	SHA256_CTX ctx;
};

struct digester *digester_new(void)
{
	struct digester *d = xmalloc(sizeof(*d));

	SHA256_Init(&d->ctx);
	return d;
}

void digester_free(struct digester *d)
{
	free(d);
}

void digester_update(struct digester *d, const void *bytes, size_t n)
{
	SHA256_Update(&d->ctx, bytes, n);
}

void digester_final(struct digester *d, struct digest *ret)
{
	SHA256_Final(ret->b, &d->ctx);
	SHA256_Init(&d->ctx);
}

char *digest_hex(const struct digest *d, char out[DIGEST_HEX_MAX])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		out[2 * i] = digits[d->b[i] >> 4];
		out[2 * i + 1] = digits[d->b[i] & 15];
	}
	out[2 * DIGEST_BYTES] = '\0';
	return out;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int digest_parse(const char *text, struct digest *ret, struct err *err)
{
	const char *hex = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
	struct digest d;

	if (strlen(hex) != 2 * DIGEST_BYTES)
		return err_set(err, ERR_INVALID, "`%.80s` is not a digest: expected 64 hex digits",
			       text);
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		int hi = hex_value(hex[2 * i]), lo = hex_value(hex[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return err_set(err, ERR_INVALID,
				       "`%.80s` is not a digest: expected 64 hex digits", text);
		d.b[i] = (uint8_t)(hi << 4 | lo);
	}
	*ret = d;
	return 0;
}

bool digest_prefix_range(const char *hex, struct digest *ret_first, struct digest *ret_last)
{
	size_t n;

	if (str_has_prefix(hex, "sha256:"))
		hex += 7;
	n = strlen(hex);
	if (n < 4 || n >= DIGEST_HEX_MAX || strspn(hex, "0123456789abcdef") != n)
		return false;
	memset(ret_first, 0, sizeof(*ret_first));
	memset(ret_last, 0xff, sizeof(*ret_last));
	for (size_t i = 0; i < n; i++) {
		int v = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10, shift = i % 2 ? 0 : 4;

		ret_first->b[i / 2] = (uint8_t)(ret_first->b[i / 2] | v << shift);
		ret_last->b[i / 2] = (uint8_t)((ret_last->b[i / 2] & ~(0xf << shift)) | v << shift);
	}
	return true;
}

static const char *const kind_names[] = { "none", "blob", "tree", "reference", "executable" };

const char *content_kind_name(unsigned kind)
{
	return kind < ARRAY_LEN(kind_names) ? kind_names[kind] : "unknown";
}

enum content_kind content_kind_parse(const char *name)
{
	for (unsigned i = CONTENT_BLOB; i < ARRAY_LEN(kind_names); i++)
		if (strcmp(kind_names[i], name) == 0)
			return (enum content_kind)i;
	return CONTENT_NONE;
}
