/* engine/base/log.h — the program's own messages on stderr. Only engine/cli, engine/serve and main use it: a library
 * returns errors and never logs.
 *
 * One line per call, written with one write(2), so that lines of several threads don't mix; text is made printable
 * (text_add_printable). Errors and warnings are prefixed with "error: " and "warning: ".
 */
#ifndef CAIRN_BASE_LOG_H
#define CAIRN_BASE_LOG_H

#include <stdarg.h>
#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level max); /* default LOG_LEVEL_INFO */
enum log_level log_get_level(void);
void log_set_fd(int fd); /* default 2; for tests */
/* Called around each line, so that a live progress display can clear and redraw itself. Either may be NULL. */
void log_set_hooks(void (*before)(void *arg), void (*after)(void *arg), void *arg);

void log_at(enum log_level level, const char *fmt, ...) _printf_(2, 3);
void log_atv(enum log_level level, const char *fmt, va_list ap) _printf_(2, 0);
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
/* The whole error, once. */
void log_err(const struct err *err);

#endif
