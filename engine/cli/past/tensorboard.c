/* engine/cli/past/tensorboard.c — event files as TensorBoard reads them.
 *
 * A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h): length as 8 bytes
 * little-endian, masked CRC-32C of these, the data, masked CRC-32C of the data; masked is the CRC
 * rotated right by 15 bits plus 0xa282ead8 (tensorflow/core/lib/hash/crc32c.h). CRC-32C is
 * Castagnoli's (RFC 3720, B.4). Each record is an Event (tensorflow/core/util/event.proto) in
 * protobuf's wire format: 1 wall_time double, 2 step int64, 3 file_version string, 5 summary; a
 * Summary (core/framework/summary.proto) has Values (1) with tag (1) and simple_value float (2).
 * The first record says brain.Event:2.
 *
 * Invariant: the same series gives the same bytes. What it doesn't do: read series (series.c).
 */
#include "runners/series/tensorboard.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "cli/past/series.h"

static void add_le(struct str *out, uint64_t v, unsigned n_bytes)
{
	for (unsigned i = 0; i < n_bytes; i++)
		str_addc(out, (char)(v >> 8 * i & 0xFF));
}

static void add_record(struct str *out, const struct str *event)
{
	size_t at = out->len;

	add_le(out, event->len, 8);
	add_le(out, tensorboard_checksum(out->s + at, 8), 4);
	str_addn(out, event->s, event->len);
	add_le(out, tensorboard_checksum(event->s, event->len), 4);
}

static void add_varint(struct str *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		str_addc(out, (char)(v | 0x80));
	str_addc(out, (char)v);
}

static void add_key(struct str *out, unsigned field, unsigned wire)
{
	add_varint(out, field << 3 | wire);
}

static void add_bytes(struct str *out, unsigned field, const char *s, size_t n)
{
	add_key(out, field, TB_BYTES);
	add_varint(out, n);
	str_addn(out, s, n);
}

static void add_double(struct str *out, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	add_key(out, field, TB_FIXED64);
	add_le(out, bits, 8);
}

static void add_float(struct str *out, unsigned field, double v)
{
	float f = (float)v;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	add_key(out, field, TB_FIXED32);
	add_le(out, bits, 4);
}

static void add_scalar(struct str *out, double wall, const char *tag, const struct series_point *p)
{
	_cleanup_(str_deinit) struct str value = { 0 }, summary = { 0 }, event = { 0 };
	int64_t step = p->x >= 9e18    ? INT64_MAX
		       : p->x <= -9e18 ? INT64_MIN
				       : (int64_t)llround(p->x);

	add_bytes(&value, 1, tag, strlen(tag));
	add_float(&value, 2, p->y);
	add_bytes(&summary, 1, value.s, value.len);
	add_double(&event, 1, wall);
	add_key(&event, 2, TB_VARINT);
	add_varint(&event, (uint64_t)step);
	add_bytes(&event, 5, summary.s, summary.len);
	add_record(out, &event);
}

/* A series has no times, so all events get the time at which the run began: the same series gives
 * the same file. */
void tensorboard_add(struct str *out, const struct series *s)
{
	static const char version[] = "brain.Event:2";
	_cleanup_(str_deinit) struct str event = { 0 };
	double wall = (double)s->started_ns / NS_PER_S;

	add_double(&event, 1, wall);
	add_bytes(&event, 3, version, sizeof(version) - 1);
	add_record(out, &event);
	for (size_t i = 0; i < s->n_metrics; i++)
		for (size_t k = 0; k < s->metrics[i].n; k++)
			add_scalar(out, wall, s->metrics[i].name, &s->metrics[i].v[k]);
}

int tensorboard_write(const char *dir, const struct series *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *run = fs_file_name(v[i].run),
				      *task = fs_file_name(v[i].task);
		_cleanup_(str_deinit) struct str path = { 0 }, bytes = { 0 };

		str_addf(&path, "%s/%s/%s", dir, run, task);
		if (fs_mkdir_p(path.s, err) < 0)
			return -1;
		str_addf(&path, "/events.out.tfevents.%lld.cairn",
			 (long long)(v[i].started_ns / NS_PER_S));
		tensorboard_add(&bytes, &v[i]);
		if (fs_write_atomic(path.s, bytes.s, bytes.len, err) < 0)
			return -1;
	}
	return 0;
}
