#include "run/task/log_part.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"

void log_part_init(struct log_part *p, const struct log_wanted *w)
{
	*p = (struct log_part){ .wanted = *w };
	if (w->of_rank)
		snprintf(p->mark, sizeof(p->mark), "[rank %u] ", w->rank);
}

/* Handles one byte at the start of a line: the next byte of the mark, or the end of it. Returns how
 * many bytes it used. */
static size_t begin_line(struct log_part *p, char byte)
{
	bool fits = p->mark[p->matched] && byte == p->mark[p->matched];

	if (fits)
		p->matched++;
	if (!p->mark[p->matched]) {
		p->line = LOG_LINE_WANTED;
		p->n_lines++;
	} else if (!fits) {
		p->line = LOG_LINE_OTHER;
	}
	return fits;
}

size_t log_part_keep(struct log_part *p, char *bytes, size_t n)
{
	size_t kept = 0, at = 0;

	while (at < n) {
		const char *eol;
		size_t len;

		if (p->line == LOG_LINE_BEGINS) {
			at += begin_line(p, bytes[at]);
			continue;
		}
		eol = memchr(bytes + at, '\n', n - at);
		len = eol ? (size_t)(eol - bytes) + 1 - at : n - at;
		if (p->line == LOG_LINE_WANTED && p->n_lines > p->skip) {
			memmove(bytes + kept, bytes + at, len);
			kept += len;
		}
		at += len;
		if (eol) {
			p->line = LOG_LINE_BEGINS;
			p->matched = 0;
		}
	}
	return kept;
}

void log_part_last(struct log_part *p)
{
	uint64_t lines = p->wanted.lines, n = p->n_lines;

	log_part_init(p, &p->wanted);
	p->skip = lines && n > lines ? n - lines : 0;
}

/* In a file larger than LOG_TAIL_MAX, this starts in the middle of a line. */
off_t log_part_seek(struct log_part *p, int fd)
{
	off_t end = lseek(fd, 0, SEEK_END),
	      from = end > (off_t)LOG_TAIL_MAX ? end - (off_t)LOG_TAIL_MAX : 0, at = from;
	char buf[65536];
	ssize_t n;

	if (!p->wanted.lines)
		return 0;
	while (at < end && (n = pread(fd, buf, MIN(sizeof(buf), (size_t)(end - at)), at)) > 0) {
		log_part_keep(p, buf, (size_t)n);
		at += n;
	}
	log_part_last(p);
	return from;
}
