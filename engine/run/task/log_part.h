/* run/task/log_part.h — the part of a log that somebody wants: the lines of one rank of a
 * distributed step, the last lines. The one filter of `cairn logs`, the API and pods' logs.
 *
 * Where the last lines are wanted, a log is read twice: log_part_keep() of all that there is
 * counts, log_part_last() goes back to the beginning, and log_part_keep() of the same bytes keeps
 * them; what comes behind those is kept as well. So nothing is held in memory, whatever lines are
 * like.
 */
#ifndef CAIRN_RUN_TASK_LOG_PART_H
#define CAIRN_RUN_TASK_LOG_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Last lines of a file are looked for in so much of its end. */
#define LOG_TAIL_MAX (64 * MIB)

struct log_wanted {
	uint64_t lines; /* the last ones; 0: all */
	bool of_rank; /* only what this rank printed, without what the launcher marks it by ("[rank
			 3] ") */
	uint32_t rank;
};

struct log_part {
	struct log_wanted wanted;
	char mark[24];  /* of a line that is wanted; "": any is */
	size_t matched; /* bytes of it that this line began with so far */
	enum { LOG_LINE_BEGINS, LOG_LINE_WANTED, LOG_LINE_OTHER } line;
	uint64_t n_lines; /* wanted ones so far */
	uint64_t skip;    /* so many of them come before the part */
};

void log_part_init(struct log_part *p, const struct log_wanted *w);
/* The next n bytes of the log: what is wanted of them is moved to the front; returns how much that
 * is. */
size_t log_part_keep(struct log_part *p, char *bytes, size_t n);
/* All that came is known now: of it the last lines are wanted. The log begins again. */
void log_part_last(struct log_part *p);
/* Counts what the file has; returns from where it is to be read. Does nothing when all lines are
 * wanted. */
off_t log_part_seek(struct log_part *p, int fd);

#endif
