/* engine/base/table/utf8.h — writes a character as UTF-8. */
#ifndef CAIRN_BASE_TABLE_UTF8_H
#define CAIRN_BASE_TABLE_UTF8_H

#include "base/text/str.h"

/* `c`: at most U+10FFFF and no surrogate. */
static inline void utf8_add(struct str *out, uint32_t c)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	str_addc(out, (char)(lead[n] | c >> 6 * (n - 1)));
	while (--n)
		str_addc(out, (char)(0x80 | (c >> 6 * (n - 1) & 63)));
}

#endif
