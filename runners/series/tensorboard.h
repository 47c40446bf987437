/* runners/series/tensorboard.h — scalars from the event files of TensorBoard. All of it is hostile
 * input; nothing is kept. Any thread. */
#ifndef CAIRN_RUNNERS_SERIES_TENSORBOARD_H
#define CAIRN_RUNNERS_SERIES_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { TB_VARINT = 0, TB_FIXED64 = 1, TB_BYTES = 2, TB_FIXED32 = 5 }; /* wire types of protobuf */
uint32_t tensorboard_checksum(const void *bytes, size_t n);           /* masked CRC-32C */

/* What stands before a record's data, and after it. */
#define TB_HEAD_BYTES 12
#define TB_TAIL_BYTES 4

/* The length of a record's data; false: no record begins with these TB_HEAD_BYTES. */
bool tensorboard_record(const unsigned char *head, uint64_t *ret_bytes);

/* Calls fn for each scalar of the records; a value that isn't finite is NAN, as is a time that is
 * unknown. *ret_end: behind the last whole one. What is only begun there is fine. ERR_INVALID. */
typedef void tensorboard_scalar_fn(void *arg, const char *tag, double step, double value,
				   double time_s);
int tensorboard_read(const void *bytes, size_t n, tensorboard_scalar_fn *fn, void *arg,
		     size_t *ret_end, struct err *err);

#endif
