/* runners/series/tensorboard.c — scalars from the event files of TensorBoard.
 *
 * The format is described in cli/past/tensorboard.c, which writes it. A scalar is a Value with
 * simple_value (2, what PyTorch writes) or with tensor (8, what TensorFlow 2 writes): a TensorProto
 * (core/framework/tensor.proto) whose dtype (1) is DT_FLOAT, with float_val (5) or four bytes of
 * tensor_content (4). Everything else in a file is skipped: images, histograms, graphs.
 *
 * Invariants: hostile input. Lengths are checked before anything is read; the checksum of each
 * record must hold. A file may end in the middle of a record, as one does whose writer was killed.
 */
#include "runners/series/tensorboard.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"

#define TAG_MAX 1000 /* bytes */

struct bytes {
	const unsigned char *at, *end;
};

uint32_t tensorboard_checksum(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint32_t crc = ~0U;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static uint64_t le(const unsigned char *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = n; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static bool take_varint(struct bytes *b, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; b->at < b->end && shift < 64; shift += 7) {
		unsigned char c = *b->at++;

		*ret |= (uint64_t)(c & 0x7f) << shift;
		if (c < 0x80)
			return true;
	}
	return false;
}

struct field {
	uint64_t number, value; /* value: of varint and fixed ones */
	struct bytes body;      /* of the others */
	unsigned wire;
};

/* The next field of a message: 1, 0 at its end, -1 when it is malformed. */
static int take_field(struct bytes *b, struct field *ret)
{
	uint64_t key, n = 0;

	if (b->at == b->end)
		return 0;
	*ret = (struct field){ 0 };
	if (!take_varint(b, &key))
		return -1;
	ret->number = key >> 3;
	ret->wire = (unsigned)(key & 7);
	if (ret->wire == TB_VARINT)
		return take_varint(b, &ret->value) ? 1 : -1;
	if (ret->wire == TB_BYTES && !take_varint(b, &n))
		return -1;
	n = ret->wire == TB_FIXED64 ? 8 : ret->wire == TB_FIXED32 ? 4 : n;
	if ((ret->wire != TB_BYTES && ret->wire != TB_FIXED64 && ret->wire != TB_FIXED32) ||
	    n > (uint64_t)(b->end - b->at))
		return -1;
	ret->body = (struct bytes){ b->at, b->at + n };
	if (ret->wire != TB_BYTES)
		ret->value = le(b->at, (unsigned)n);
	b->at += n;
	return 1;
}

static double float_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

/* A tensor that is one float. */
static bool read_tensor(struct bytes b, double *ret)
{
	bool is_float = false, found = false;
	struct field f;

	while (take_field(&b, &f) > 0) {
		bool four =
			f.wire == TB_FIXED32 || (f.wire == TB_BYTES && f.body.end - f.body.at == 4);

		is_float |= f.number == 1 && f.wire == TB_VARINT && f.value == 1;
		if ((f.number == 4 || f.number == 5) && four) {
			*ret = float_of(le(f.body.at, 4));
			found = true;
		}
	}
	return found && is_float;
}

static void read_value(struct bytes b, double step, double time_s, tensorboard_scalar_fn *fn,
		       void *arg)
{
	bool found = false;
	char tag[TAG_MAX + 1] = "";
	double value = 0;
	struct field f;

	while (take_field(&b, &f) > 0) {
		size_t n = (size_t)(f.body.end - f.body.at);

		if (f.number == 1 && f.wire == TB_BYTES && n <= TAG_MAX &&
		    !memchr(f.body.at, 0, n)) {
			memcpy(tag, f.body.at, n);
			tag[n] = '\0';
		} else if (f.number == 2 && f.wire == TB_FIXED32) {
			value = float_of(f.value);
			found = true;
		} else if (f.number == 8 && f.wire == TB_BYTES) {
			found |= read_tensor(f.body, &value);
		}
	}
	if (found && *tag && text_is_utf8(tag, strlen(tag)))
		fn(arg, tag, step, isfinite(value) ? value : (double)NAN, time_s);
}

static void read_event(struct bytes b, tensorboard_scalar_fn *fn, void *arg)
{
	struct bytes summary = { 0 };
	double time_s = (double)NAN;
	int64_t step = 0;
	struct field f;

	while (take_field(&b, &f) > 0) {
		if (f.number == 1 && f.wire == TB_FIXED64)
			memcpy(&time_s, &f.value, sizeof(time_s));
		else if (f.number == 2 && f.wire == TB_VARINT)
			step = (int64_t)f.value;
		else if (f.number == 5 && f.wire == TB_BYTES)
			summary = f.body;
	}
	while (summary.at != summary.end && take_field(&summary, &f) > 0)
		if (f.number == 1 && f.wire == TB_BYTES)
			read_value(f.body, (double)step, isfinite(time_s) ? time_s : (double)NAN,
				   fn, arg);
}

bool tensorboard_record(const unsigned char *head, uint64_t *ret_bytes)
{
	*ret_bytes = le(head, 8);
	return le(head + 8, 4) == tensorboard_checksum(head, 8);
}

int tensorboard_read(const void *bytes, size_t n, tensorboard_scalar_fn *fn, void *arg,
		     size_t *ret_end, struct err *err)
{
	const unsigned char *begin = bytes, *at = begin, *end = begin + n;

	*ret_end = 0;
	while (end - at >= TB_HEAD_BYTES) {
		const unsigned char *data = at + TB_HEAD_BYTES;
		uint64_t len;

		if (!tensorboard_record(at, &len))
			return err_set(err, ERR_INVALID,
				       "no event file: wrong checksum at byte %zu", *ret_end);
		if (end - data < TB_TAIL_BYTES || len > (uint64_t)(end - data) - TB_TAIL_BYTES)
			break; /* its writer was killed, or still writes */
		if (le(data + len, 4) != tensorboard_checksum(data, len))
			return err_set(err, ERR_INVALID, "wrong checksum at byte %zu", *ret_end);
		read_event((struct bytes){ data, data + len }, fn, arg);
		at = data + len + TB_TAIL_BYTES;
		*ret_end = (size_t)(at - begin);
	}
	return 0;
}
