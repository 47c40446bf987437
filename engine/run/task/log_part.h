/* engine/run/task/log_part.h — selects part of a log: the lines of one rank of a distributed step,
 * the last lines. `cairn logs`, the API and pods' logs all use this filter.
 *
 * For the last lines, a log is read twice: log_part_keep() over everything counts the lines;
 * log_part_last() goes back to the beginning; log_part_keep() over the same bytes then keeps the
 * last lines, and everything that comes later. So nothing is held in memory, however long lines
 * are.
 */
#ifndef CAIRN_RUN_TASK_LOG_PART_H
#define CAIRN_RUN_TASK_LOG_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The last lines of a file are searched in at most this much of its end. */
#define LOG_TAIL_MAX (64 * MIB)

struct log_wanted {
	uint64_t lines; /* the last ones; 0: all */
	bool of_rank;   /* only what this rank printed, without the launcher's mark ("[rank 3] ") */
	uint32_t rank;
};

struct log_part {
	struct log_wanted wanted;
	char mark[24];  /* at the start of wanted lines; "": all lines */
	size_t matched; /* bytes of the mark that this line has matched so far */
	enum { LOG_LINE_BEGINS, LOG_LINE_WANTED, LOG_LINE_OTHER } line;
	uint64_t n_lines; /* wanted lines so far */
	uint64_t skip;    /* wanted lines before the part that is kept */
};

void log_part_init(struct log_part *p, const struct log_wanted *w);
/* Takes the next n bytes, moves the wanted ones to the front, and returns their number. */
size_t log_part_keep(struct log_part *p, char *bytes, size_t n);
/* The log is complete: only its last lines are wanted. Start again with its first byte. */
void log_part_last(struct log_part *p);
/* Counts the file's lines; returns the offset from which to read. Does nothing if all lines are
 * wanted. */
off_t log_part_seek(struct log_part *p, int fd);

#endif
