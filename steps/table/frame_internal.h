/* steps/table/frame_internal.h — shared by frame.c (files and blocks) and frame_read.c (cells). */
#ifndef CAIRN_STEPS_TABLE_FRAME_INTERNAL_H
#define CAIRN_STEPS_TABLE_FRAME_INTERNAL_H

#include "base/table/npy.h"
#include "steps/mapped.h"
#include "steps/table/frame.h"

struct part {
	char *path;
	struct mapped bytes;
	const char *text; /* those */
	size_t size;
	size_t body; /* offset of the first row */
	size_t end;  /* offset after the last row */
	uint64_t body_line;
	bool quotes; /* a CSV with quotes is read by one thread */
	struct npy npy;
};

/* Rows that one thread reads. */
struct block {
	const struct part *part;
	size_t from, to; /* bytes of the part; rows of an NPY */
	uint64_t first_line;
	size_t row, rows;
	struct dict *texts; /* while reading: one per column of CODES */
	uint32_t **recode;  /* their codes → the column's */
};

struct frame {
	enum frame_format format;
	VEC(struct part) parts;
	VEC(struct block) blocks;
	VEC(const char *) names;
	VEC(const char *) relied; /* patterns of frame_rely() */
	struct arena *arena;      /* names; texts that couldn't be lent, under reading.lock */
	size_t rows;
	unsigned threads;
	uint8_t *bad;
	size_t n_bad;
};

static inline char frame_separator(const struct frame *t)
{
	return t->format == FRAME_TSV ? '\t' : ',';
}

#endif
