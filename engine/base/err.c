/* engine/base/err.c — building messages.
 *
 * A message is built in a larger buffer on the stack (format()) and then copied into the object
 * (fill()) with everything escaped that must not reach a terminal or a log line raw: hostile
 * characters (a newline in a file name, text that runs backwards) byte by byte, and bytes that
 * aren't UTF-8. Escapes are plain ASCII, so that prepending context later doesn't escape them
 * again. A message that is too long is cut after a complete character.
 *
 * No allocation, no lock, and errno stays as it was: errors are also reported when memory or
 * descriptors run out.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text/hostile.h"
#include "base/text/text.h"

#define ELLIPSIS     "\xe2\x80\xa6"
#define ELLIPSIS_LEN (sizeof(ELLIPSIS) - 1)

/* One source character as it goes into the message: at most 4 bytes and a NUL in `out`. Returns
 * bytes consumed. */
static size_t next_piece(const char *s, size_t left, char out[5])
{
	uint32_t cp = 0;
	size_t n = text_utf8_decode(s, left, &cp);

	if (n == 0 || text_is_hostile(cp)) {
		if (cp == '\n')
			memcpy(out, "\\n", 3);
		else if (cp == '\t')
			memcpy(out, " ", 2);
		else
			snprintf(out, 5, "\\x%02x", (unsigned char)*s);
		return 1;
	}
	memcpy(out, s, n);
	out[n] = '\0';
	return n;
}

static void fill(char *dst, size_t size, const char *text)
{
	const char *s = text, *end = text + strlen(text);
	size_t len = 0, fits = 0; /* fits: last length after which "…" fits */
	char piece[5];

	while (s < end) {
		size_t eaten = next_piece(s, (size_t)(end - s), piece), n = strlen(piece);

		if (len + n >= size) {
			memcpy(dst + fits, ELLIPSIS, ELLIPSIS_LEN + 1);
			return;
		}
		memcpy(dst + len, piece, n);
		len += n;
		s += eaten;
		if (len + ELLIPSIS_LEN < size)
			fits = len;
	}
	dst[len] = '\0';
}

static void _printf_(3, 0) format(struct err *err, const char *tail, const char *fmt, va_list ap)
{
	char text[3 * sizeof(err->msg)];
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	size_t len = n < 0 ? 0 : MIN((size_t)n, sizeof(text) - 1);

	text[len] = '\0';
	snprintf(text + len, sizeof(text) - len, "%s%s", tail ? ": " : "", tail ? tail : "");
	fill(err->msg, sizeof(err->msg), text);
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!err)
		return -1;
	err->code = code;
	err->sys = 0;
	va_start(ap, fmt);
	format(err, NULL, fmt, ap);
	va_end(ap);
	errno = saved;
	return -1;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int saved = errno;
	const char *why = strerrordesc_np(saved);
	char unknown[32];
	va_list ap;

	if (!err)
		return -1;
	if (!why) {
		snprintf(unknown, sizeof(unknown), "error %d", saved);
		why = unknown;
	}
	err->code = saved == ENOSPC || saved == EDQUOT ? ERR_NO_SPACE
		    : saved == ENOENT                  ? ERR_NOT_FOUND
						       : ERR_IO;
	err->sys = saved;
	va_start(ap, fmt);
	format(err, why, fmt, ap);
	va_end(ap);
	errno = saved;
	return -1;
}

int err_pass(struct err *err, const struct err *from)
{
	if (err)
		*err = *from;
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	int saved = errno;
	char inner[sizeof(err->msg)];
	va_list ap;

	if (!err)
		return -1;
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	format(err, inner, fmt, ap);
	va_end(ap);
	errno = saved;
	return -1;
}

int err_exit_code(const struct err *err)
{
	switch (err->code) {
	case ERR_NONE:
		return 0;
	case ERR_FAILED:
		return 1;
	case ERR_USAGE:
		return 2;
	case ERR_INVALID:
	case ERR_UNSUPPORTED:
	case ERR_TOO_LARGE:
		return 3;
	case ERR_CANCELLED:
		return 130;
	case ERR_NOT_FOUND:
	case ERR_EXISTS:
	case ERR_CORRUPT:
	case ERR_IO:
	case ERR_NO_SPACE:
	case ERR_READ_ONLY:
	case ERR_CHANGED:
	case ERR_BUSY:
	case ERR_NEWER:
		return 4;
	}
	return 4;
}
