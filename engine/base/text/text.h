/* engine/base/text/text.h — text that people write and read: units, times, suggestions, quoting,
 * terminal width.
 *
 * Parsers take the whole string (no spaces around) or fail with ERR_INVALID that shows the text and
 * an example. Formatters append. Nothing here depends on the locale or on the time zone. Pure; any
 * thread.
 */
#ifndef CAIRN_BASE_TEXT_TEXT_H
#define CAIRN_BASE_TEXT_TEXT_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

/* The candidate nearest to `word`, for typing errors, or NULL when none is near:
 * Damerau-Levenshtein distance (adjacent swaps count 1), case differences cost less than other
 * edits, at most a third of the word's length. */
const char *text_nearest(const char *word, const char *const *candidates, size_t n);
/* Adds " (did you mean `x`?)" for the nearest candidate, if any. For the end of a message. */
void text_add_suggestion(struct str *out, const char *word, const char *const *candidates,
			 size_t n);
/* Whether `word` (NULL: it isn't) is one of these. */
bool text_is_one_of(const char *word, const char *const *words, size_t n);
/* The first `max` of the names: "a, b, …". */
void text_add_names(struct str *out, const char *const *names, size_t n, size_t max);

/* Quantities. */

/* "500ms" "10s" "5m" "1h30m" "2d" "1.5h"; units ns us ms s m h d, largest first, each once; a bare
 * "0". Never negative. */
int text_parse_duration(const char *text, int64_t *ret_ns, struct err *err);
/* "10s..5m", or one duration for both ends. ERR_INVALID when the first is longer than the second.
 */
int text_parse_duration_range(const char *text, int64_t *ret_min_ns, int64_t *ret_max_ns,
			      struct err *err);
void text_add_duration(struct str *out,
		       int64_t ns); /* for people: 0s 85us 12ms 2.4s 43s 1m05s 1h30m 2d3h */
void text_add_duration_exact(struct str *out,
			     int64_t ns); /* parses back to the same value: 1h30m, 1s500ms */

/* "1Gi" "500Mi" "128Ki" (1024), "2G" "128K" "128k" "5M" (1000), "1.5Gi", plain bytes; P and T too;
 * a B at the end is allowed. */
int text_parse_bytes(const char *text, uint64_t *ret_bytes, struct err *err);
void text_add_bytes(struct str *out,
		    uint64_t bytes); /* for people: 812 B, 1.5 KiB, 16 MiB, 2.0 GiB */

/* "2" "0.5" "500m": in thousandths of a cpu. At most 1,000,000 cpus; finer than 1m is an error. */
int text_parse_cpu(const char *text, uint32_t *ret_milli, struct err *err);

void text_add_count(struct str *out, uint64_t n); /* 1,234,567 */
/* The shortest decimal that reads back as the same double: 0.1, 1e-07, 1e+20; 7 for 7.0; inf, -inf,
 * nan. */
void text_add_double(struct str *out, double v);
/* The whole of `text` as a number, in the C locale whatever the program's is. False for anything
 * else (also "", " 1", "0x1p3", overflow). */
bool text_parse_double(const char *text, double *ret);
bool text_parse_int(const char *text, int64_t *ret); /* decimal, optional sign */

/* Time. */

/* UTC, ISO 8601: 2025-03-01T12:00:00.123Z; digits: 0, 3, 6 or 9 decimals (cut, not rounded). Years
 * 1678–2261 (int64 nanoseconds). */
void text_add_time(struct str *out, int64_t unix_ns, int digits);
/* Accepts Z or ±hh:mm, 'T' or a space, seconds with up to 9 decimals or left out, and a date alone
 * (midnight UTC). */
int text_parse_time(const char *text, int64_t *ret_unix_ns, struct err *err);
/* "just now", "12 seconds ago", "3 minutes ago", "2 days ago", "in 5 minutes". */
void text_add_relative(struct str *out, int64_t then_unix_ns, int64_t now_unix_ns);

/* Characters. */

/* Bytes of the well-formed UTF-8 character at s (1–4; no surrogates, nothing over U+10FFFF), 0 when
 * there is none. */
size_t text_utf8_decode(const char *s, size_t n, uint32_t *ret_codepoint);
bool text_is_utf8(const char *s, size_t n);

/* For /bin/sh: unchanged if that is safe, else in single quotes. Any bytes but NUL. */
void text_add_shell_quoted(struct str *out, const char *s);
/* For a terminal, one line: control characters (C0, DEL, C1), bidirectional overrides, line
 * separators, noncharacters and bytes that are not UTF-8 become \n \t \r \e or \xNN (\u202e for
 * characters); a backslash stays as it is. */
void text_add_printable(struct str *out, const char *s, size_t n);
/* For text and attributes of XML, SVG and HTML: the printable form, with entities for markup
 * characters. */
void text_add_xml(struct str *out, const char *s, size_t n);
/* The path in a volume of a cluster, with its slash: of "claim://NAME/PATH", where NAME has no
 * slash, or "image://NAME@sha256:HEX/PATH". "" (the URI's end): the whole volume. */
const char *text_volume_path(const char *uri);
/* Replaces a secret in the text with stars, because answers may quote what we sent. Also replaces
 * its beginning (8 characters or more) at the end of a truncated text. secret: or NULL. */
void text_hide(char *text, const char *secret);
/* Columns that the text takes in a terminal: 0 for combining and control characters, 2 for wide
 * ones (East Asian, emoji). */
size_t text_width(const char *s, size_t n);

#endif
