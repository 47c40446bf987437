/* engine/base/crypto/base64.h — base64 (RFC 4648): the standard alphabet, and the one for URLs
 * without padding. */
#ifndef CAIRN_BASE_CRYPTO_BASE64_H
#define CAIRN_BASE_CRYPTO_BASE64_H

#include "base/err.h"
#include "base/text/str.h"

void base64_add(struct str *out, const void *bytes, size_t n);
void base64_add_url(struct str *out, const void *bytes, size_t n);
/* Standard alphabet, with padding; line breaks and spaces are allowed, bits behind the last byte
 * are not (so that no other digits mean the same bytes). ERR_INVALID; the message doesn't quote the
 * text. */
int base64_decode(struct str *out, const char *text, size_t n, struct err *err);

#endif
