#include "storage/bucket/gcs/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static uint32_t table[256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
		table[i] = c;
	}
}

static uint32_t by_table(uint32_t c, const uint8_t *p, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_table);
	while (n--)
		c = table[(c ^ *p++) & 0xff] ^ (c >> 8);
	return c;
}

#if defined(__x86_64__)
__attribute__((__target__("sse4.2,crc32"))) static uint32_t
by_instruction(uint32_t c, const uint8_t *p, size_t n)
{
	uint64_t c64 = c, word;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		c64 = __builtin_ia32_crc32di(c64, word);
	}
	c = (uint32_t)c64;
	while (n--)
		c = __builtin_ia32_crc32qi(c, *p++);
	return c;
}
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return ~by_instruction(~crc, bytes, n);
#endif
	return ~by_table(~crc, bytes, n);
}

void crc32c_base64(uint32_t crc, char out[9])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (int i = 0; i < 5; i++)
		out[i] = digits[crc >> (26 - 6 * i) & 63];
	out[5] = digits[(crc << 4) & 63];
	out[6] = out[7] = '=';
	out[8] = '\0';
}
