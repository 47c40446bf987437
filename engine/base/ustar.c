#include "base/ustar.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static void octal(char *field, size_t digits, uint64_t v)
{
	for (size_t i = digits; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

void ustar_seal(struct ustar *h, char type, unsigned mode, uint64_t size)
{
	unsigned sum = 0;

	assert(size <= USTAR_SIZE_MAX);
	octal(h->mode, 7, mode);
	octal(h->uid, 7, 0);
	octal(h->gid, 7, 0);
	octal(h->size, 11, size);
	octal(h->mtime, 11, 0);
	h->type = type;
	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	octal(h->major, 7, 0);
	octal(h->minor, 7, 0);
	memset(h->checksum, ' ', sizeof(h->checksum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += ((const unsigned char *)h)[i];
	octal(h->checksum, 6, sum);
	h->checksum[6] = '\0';
}

void ustar_add_record(struct str *out, const char *key, const char *value, size_t n)
{
	size_t rest = strlen(key) + n + strlen(" =\n"), digits = 1;

	while ((size_t)snprintf(NULL, 0, "%zu", rest + digits) > digits)
		digits++;
	str_addf(out, "%zu %s=", rest + digits, key);
	str_addn(out, value, n);
	str_addc(out, '\n');
}
