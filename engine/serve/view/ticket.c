#include "serve/view/ticket.h"
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/os/machine.h"
#include "base/time/clock.h"

#define MAC_BYTES 16

/* What is signed: all of it, in the machine's order, since only this process reads it. */
struct signed_ticket {
	int64_t until_ns;
	uint64_t size;
	uint32_t project;
	uint8_t kind, way, zero[2];
	uint8_t content[DIGEST_BYTES], proof[DIGEST_BYTES];
};

static unsigned char key[32];

static void make_key(void)
{
	random_bytes(key, sizeof(key));
}

/* The first MAC_BYTES of *ret stand behind the ticket. */
static void sign(const struct signed_ticket *s, struct digest *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	digest_hmac(key, sizeof(key), s, sizeof(*s), ret);
}

void ticket_write(const struct ticket *t, struct str *out)
{
	unsigned char bytes[sizeof(struct signed_ticket) + MAC_BYTES];
	struct signed_ticket s = { .until_ns = t->until_ns,
				   .size = t->content.size_bytes,
				   .project = t->project,
				   .kind = t->content.kind,
				   .way = (uint8_t)t->proof.way };
	struct digest mac;

	memcpy(s.content, t->content.digest.b, DIGEST_BYTES);
	memcpy(s.proof, t->proof.digest.b, DIGEST_BYTES);
	sign(&s, &mac);
	memcpy(bytes, &s, sizeof(s));
	memcpy(bytes + sizeof(s), mac.b, MAC_BYTES);
	base64_add_url(out, bytes, sizeof(bytes));
}

bool ticket_read(const char *text, struct ticket *ret)
{
	_cleanup_(str_deinit) struct str standard = { 0 }, bytes = { 0 };
	struct signed_ticket s;
	struct digest mac;
	size_t n = strlen(text);

	if (n > TICKET_CHARS)
		return false;
	str_addn(&standard, text, n);
	for (size_t i = 0; i < n; i++) {
		if (strchr("+/=", text[i]))
			return false; /* one text for each ticket */
		standard.s[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	}
	while (standard.len % 4)
		str_addc(&standard, '=');
	if (base64_decode(&bytes, standard.s ? standard.s : "", standard.len, NULL) < 0 ||
	    bytes.len != sizeof(s) + MAC_BYTES)
		return false;
	memcpy(&s, bytes.s, sizeof(s));
	sign(&s, &mac);
	if (CRYPTO_memcmp(mac.b, bytes.s + sizeof(s), MAC_BYTES) != 0 ||
	    s.until_ns <= clock_wall_ns())
		return false;
	*ret = (struct ticket){ .project = s.project,
				.content = { .size_bytes = s.size, .kind = s.kind },
				.proof = { .way = (enum way)s.way },
				.until_ns = s.until_ns };
	memcpy(ret->content.digest.b, s.content, DIGEST_BYTES);
	memcpy(ret->proof.digest.b, s.proof, DIGEST_BYTES);
	return true;
}
