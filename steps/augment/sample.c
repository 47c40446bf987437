/* steps/augment/sample.c — one sample: its images are read, changed and written; everything else is
 * lent to the results.
 *
 * plan_init() reads the settings once. sample_augment() then goes through the fields: check_masks()
 * compares masks with their images, augment_field() probes an image. For each copy change_image()
 * draws, decodes and applies the ops one after the other, and write_image() encodes. Data that
 * belongs to a result is in made.owned; all other bytes are lent by the sample.
 *
 * An image is decoded as late as possible: when the first op takes a window, only that is decoded
 * (load_for(), codec.h). For several copies it is decoded once as a whole, for each scale that is
 * needed (ws->decoded, valid for one field: ws->have); that gives the same pixels.
 *
 * Invariants: the random key is the sample's, not the field's, so all images and masks of a copy
 * get the same draws. Nothing depends on which copies share an item. On an error every result is
 * freed (augmented_deinit()).
 *
 * A plan is shared and never changes; a workspace belongs to one thread. Keys and names may be any
 * bytes, so they are made printable for errors. augment.c counts or skips bad samples.
 */
#include "steps/augment/sample.h"
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "steps/step.h"

/* The plan. */

static int compile_ops(struct plan *p, struct err *err)
{
	const json_t *ops = step_value(p->with, "ops");

	p->n_ops = json_array_size(ops);
	assert(p->n_ops <= OPS_MAX); /* the spec's limit */
	for (size_t i = 0; i < p->n_ops; i++) {
		if (op_compile(&p->ops[i], json_array_get(ops, i), err) < 0)
			return err_wrap(err, "with.ops[%zu]", i);
		if (p->ops[i].type != &op_normalize)
			continue;
		if (i + 1 < p->n_ops)
			return err_set(err, ERR_INVALID,
				       "with.ops[%zu]: normalize must be the last op", i);
		p->normalize = &p->ops[i];
	}
	if (p->normalize && p->to != IMAGE_NONE && p->to != IMAGE_NPY)
		return err_set(err, ERR_INVALID,
			       "with.to: normalize gives numbers that only npy can hold");
	return 0;
}

int plan_init(struct plan *p, const json_t *with, struct err *err)
{
	static const char *const formats[] = { "keep", "jpeg", "png", "npy" }, *const on_bad[] = {
		"fail", "skip", "keep"
	};
	double background[3];

	*p = (struct plan){ .with = with,
			    .seed = (uint64_t)step_int(with, "seed"),
			    .copies = (uint32_t)step_int(with, "copies"),
			    .quality = (int)step_int(with, "quality"),
			    .compression = (int)step_int(with, "compression"),
			    .scaled_decode = step_bool(with, "scaled_decode"),
			    .record = step_bool(with, "record"),
			    .image = step_value(with, "image"),
			    .masks = step_value(with, "masks") };
	p->to = (enum image_format)op_word(formats, ARRAY_LEN(formats), step_text(with, "to"));
	p->on_bad = (enum on_bad)op_word(on_bad, ARRAY_LEN(on_bad), step_text(with, "on_bad"));
	p->codec.max_pixels = (uint64_t)step_int(with, "max_pixels");
	p->codec.upright = strcmp(step_text(with, "orientation"), "apply") == 0;
	p->codec.has_background = json_array_size(step_value(with, "background")) > 0;
	if (p->codec.has_background) {
		op_numbers(with, "background", background, 3);
		for (int i = 0; i < 3; i++)
			p->codec.background[i] = (uint8_t)background[i];
	}
	return compile_ops(p, err);
}

/* Fields with images. */

static const char *last_part(const char *field)
{
	const char *dot = strrchr(field, '.');

	return dot ? dot + 1 : field;
}

static enum image_format format_of_name(const char *field)
{
	const char *part = last_part(field);

	return strcmp(part, "jpg") == 0 || strcmp(part, "jpeg") == 0 ? IMAGE_JPEG
	       : strcmp(part, "png") == 0                            ? IMAGE_PNG
	       : strcmp(part, "npy") == 0                            ? IMAGE_NPY
								     : IMAGE_NONE;
}

static bool is_listed(const json_t *list, const char *field)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), field) == 0)
			return true;
	return false;
}

static bool is_image(const struct plan *p, const struct shard_sample *s, const char *field)
{
	enum image_format f = format_of_name(field);

	if (json_array_size(p->image) > 0)
		return is_listed(p->image, field);
	if (is_listed(p->masks, field) || f == IMAGE_NONE)
		return false;
	/* Next to a picture, an array isn't an image. */
	for (size_t i = 0; i < s->n_fields && f == IMAGE_NPY; i++) {
		enum image_format other = format_of_name(s->fields[i].name);

		if ((other == IMAGE_JPEG || other == IMAGE_PNG) &&
		    !is_listed(p->masks, s->fields[i].name))
			return false;
	}
	return true;
}

/* One image. */

/* Copies of a sample from `first` on, handled one field after the other. */
struct job {
	const struct plan *p;
	const struct shard_sample *sample;
	struct workspace *ws;
	struct random_key key;
	uint32_t first, n;
	struct augmented *made; /* by copy */
	json_t **records;       /* by copy, the drawn values; NULL: not wanted */

	const struct shard_field *field; /* the current one */
	struct codec_options codec;
	struct image_info info;
	bool mask;
	bool deep; /* a mask of 16-bit levels */
};

/* How much smaller it may be decoded: at least twice the wanted size must remain. */
static unsigned choose_denom(const struct job *j, const struct op *op, const struct window *win)
{
	unsigned denom = 8;

	if (j->info.format != IMAGE_JPEG || !j->p->scaled_decode || j->mask ||
	    op->filter == FILTER_NEAREST)
		return 1;
	while (denom > 1 && (win->w < 2 * win->to_w * denom || win->h < 2 * win->to_h * denom))
		denom /= 2;
	return denom;
}

static int load(const struct job *j, const struct image_part *part, struct err *err)
{
	const struct image_part whole = { 0, 0, j->info.w, j->info.h, part->denom };
	unsigned k = (unsigned)__builtin_ctz(part->denom);
	struct image *from = &j->ws->decoded[k];

	if (j->n == 1) /* else it is decoded once for all copies */
		return codec_read(j->field->data, j->field->n, &j->codec, &j->info, part,
				  &j->ws->cur, &j->ws->spare, err);
	if (!j->ws->have[k] && codec_read(j->field->data, j->field->n, &j->codec, &j->info, &whole,
					  from, &j->ws->spare, err) < 0)
		return -1;
	j->ws->have[k] = true;
	codec_view(&j->ws->cur, from, part);
	return 0;
}

/* Loads the image. If the first op decides how the image is read, applies it as well and returns
 * 1. */
static int load_for(const struct job *j, const struct op *op, const struct drawn *d,
		    struct err *err)
{
	const struct op_target t = { j->info.w, j->info.h, j->mask };
	const struct window win = window_of(d);
	struct image_part part = { 0, 0, j->info.w, j->info.h, 1 };

	if (!op || !d->on || !op->type->window || !window_is_inside(d, &t))
		return load(j, &part, err);
	part = (struct image_part){ (uint32_t)win.x, (uint32_t)win.y, (uint32_t)win.w,
				    (uint32_t)win.h, choose_denom(j, op, &win) };
	if (load(j, &part, err) < 0)
		return -1;

	double k = part.denom, x = win.x / k - part.x / part.denom,
	       y = win.y / k - part.y / part.denom;
	const struct box box = { x, y, MIN(win.w / k, j->ws->cur.w - x),
				 MIN(win.h / k, j->ws->cur.h - y) };

	window_apply(op, d, &box, j->ws, j->mask);
	return 1;
}

/* Leaves the result in ws->cur, and the drawn values in `record`, an array, unless NULL. */
static int change_image(const struct job *j, uint32_t copy, json_t *record, struct err *err)
{
	const struct plan *p = j->p;
	struct op_place at = { j->key, copy, 0 };
	struct op_target t = { j->info.w, j->info.h, j->mask };
	struct drawn d = { 0 };
	struct op op;
	int done = 0;

	if (p->n_ops > 0 && op_draw(&p->ops[0], &at, &t, &d, err) < 0)
		return -1;
	done = load_for(j, p->n_ops > 0 ? &p->ops[0] : NULL, &d, err);
	if (done < 0)
		return -1;
	for (size_t i = 0; i < p->n_ops; i++) {
		at.index = (uint32_t)i;
		t.w = j->ws->cur.w;
		t.h = j->ws->cur.h;
		if (i > 0 && op_draw(&p->ops[i], &at, &t, &d, err) < 0)
			return -1;
		op = p->ops[i];
		if (j->deep)
			op.fill[1] = op.fill[2] =
				0; /* the high byte of a level, and an unused byte */
		if (i > 0 || !done)
			op_apply(&op, &d, &at, j->ws, j->mask);
		if (record)
			json_array_append_new(record, op_record(&p->ops[i], &d));
	}
	return 0;
}

/* Labels never become JPEG. */
static enum image_format result_format(const struct job *j)
{
	enum image_format f = j->p->to;

	if (j->p->normalize)
		return IMAGE_NPY;
	if (f == IMAGE_NONE)
		f = format_of_name(j->field->name);
	if (f == IMAGE_NONE)
		f = j->info.format;
	return j->mask && f == IMAGE_JPEG ? IMAGE_PNG : f;
}

static int write_image(const struct job *j, struct str *out, struct err *err)
{
	const struct image *im = &j->ws->cur;
	const struct op *normalize = j->p->normalize;

	switch (result_format(j)) {
	case IMAGE_JPEG:
		return codec_write_jpeg(im, j->p->quality, out, err);
	case IMAGE_PNG:
		return codec_write_png(im, j->deep, j->p->compression, out, err);
	default:
		if (normalize && !j->mask)
			codec_write_npy_float(im, normalize->mean, normalize->std, normalize->flag,
					      out);
		else
			codec_write_npy(im, j->deep, out);
		return 0;
	}
}

/* Results. */

void augmented_deinit(struct augmented *m)
{
	for (size_t i = 0; i < m->n_owned; i++)
		free(m->owned[i]);
	free(m->owned);
	free(m->fields);
	free(m->key);
	*m = (struct augmented){ 0 };
}

static void made_init(struct augmented *m, const struct plan *p, const struct shard_sample *s,
		      uint32_t copy)
{
	*m = (struct augmented){ .key = p->copies > 1 ? xasprintf("%s-%u", s->key, copy)
						      : xstrdup(s->key),
				 .n_fields = s->n_fields };
	m->fields =
		xcalloc(s->n_fields + 1, sizeof(*m->fields)); /* one more for the drawn values */
	memcpy(m->fields, s->fields, s->n_fields * sizeof(*m->fields));
	m->owned = xcalloc(2 * (s->n_fields + 1), sizeof(*m->owned));
}

static void *own(struct augmented *m, void *p)
{
	return m->owned[m->n_owned++] = p;
}

static const char *result_name(const struct job *j, struct augmented *m)
{
	static const char *const parts[] = {
		[IMAGE_JPEG] = "jpg", [IMAGE_PNG] = "png", [IMAGE_NPY] = "npy"
	};
	enum image_format f = result_format(j);
	const char *name = j->field->name;

	if (format_of_name(name) == f ||
	    (format_of_name(name) == IMAGE_NONE && j->info.format == f))
		return name;
	return own(m, xasprintf("%.*s%s", (int)(last_part(name) - name), name, parts[f]));
}

/* Makes field number `at` of copy number `i` of the job. */
static int make_field(const struct job *j, size_t at, uint32_t i, struct err *err)
{
	struct augmented *m = &j->made[i];
	json_t *ops = j->records ? json_array() : NULL;
	struct str out = { 0 };

	if (change_image(j, j->first + i, ops, err) < 0 || write_image(j, &out, err) < 0) {
		json_decref(ops);
		str_deinit(&out);
		return -1;
	}
	if (ops) {
		_cleanup_(str_deinit) struct str name = { 0 }; /* a field's name may be any bytes */

		json_name_encode(&name, j->field->name, strlen(j->field->name));
		json_object_set_new(j->records[i], name.s,
				    json_pack("{s:i,s:i,s:o}", "width", (int)j->info.w, "height",
					      (int)j->info.h, "ops", ops));
	}
	m->fields[at].name = result_name(j, m);
	m->fields[at].n = out.len;
	m->fields[at].data = own(m, str_take(&out));
	return 0;
}

static int name_field(struct err *err, const char *name)
{
	_cleanup_(str_deinit) struct str printable = { 0 };

	text_add_printable(&printable, name, strnlen(name, 100));
	return err_wrap(err, "%s", printable.s ? printable.s : "");
}

/* Half of a 16-bit level would be another label, or another depth. So a mask keeps it, and an image
 * loses it only when the settings name the field. */
static int check_levels(const struct job *j, struct err *err)
{
	if (!j->info.deep ||
	    (!j->mask && (j->info.colour || is_listed(j->p->image, j->field->name))))
		return 0;
	if (j->mask && j->info.colour)
		return err_set(err, ERR_INVALID, "a mask has labels, not 16-bit colours");
	return j->mask ? 0
		       : err_set(err, ERR_INVALID,
				 "its gray levels have 16 bits, as labels and depths do: name the "
				 "field in `masks` to keep them, or in `image` to make them 8-bit "
				 "levels");
}

/* Changes one field of the sample in all copies. */
static int augment_field(struct job *j, size_t at, struct err *err)
{
	j->field = &j->sample->fields[at];
	j->mask = is_listed(j->p->masks, j->field->name);
	j->codec = j->p->codec;
	j->codec.indices = j->codec.levels = j->mask;
	memset(j->ws->have, 0, sizeof(j->ws->have));
	if (codec_probe(j->field->data, j->field->n, &j->codec, &j->info, err) < 0 ||
	    check_levels(j, err) < 0)
		return name_field(err, j->field->name);
	j->deep = j->mask && j->info.deep;
	for (uint32_t i = 0; i < j->n; i++)
		if (make_field(j, at, i, err) < 0)
			return name_field(err, j->field->name);
	return 0;
}

static int check_names(const struct augmented *m, struct err *err)
{
	for (size_t i = 0; i < m->n_fields; i++)
		for (size_t k = i + 1; k < m->n_fields; k++)
			if (strcmp(m->fields[i].name, m->fields[k].name) == 0) {
				err_set(err, ERR_INVALID,
					"two of its fields would have the same name");
				return name_field(err, m->fields[i].name);
			}
	return 0;
}

static void add_record(const struct plan *p, struct augmented *m, uint32_t copy, json_t *images)
{
	json_t *all = json_pack("{s:s,s:I,s:i,s:O}", "step", "augment", "seed", (json_int_t)p->seed,
				"copy", (int)copy, "images", images);
	struct str text = { 0 };

	json_add_canonical(&text, all);
	json_decref(all);
	m->fields[m->n_fields] = (struct shard_field){ "augment.json", text.s, text.len };
	own(m, text.s);
	m->n_fields++;
}

/* Both sizes are those of upright images. The mask's own EXIF, or its size, tells which way up it
 * was drawn. */
static int check_fit(const struct image_info *image, const struct image_info *mask, struct err *err)
{
	if (mask->w != image->w || mask->h != image->h)
		return err_set(err, ERR_INVALID, "the mask has %u x %u pixels, its image %u x %u",
			       mask->w, mask->h, image->w, image->h);
	if (mask->orientation == image->orientation ||
	    (mask->orientation == 1 && image->orientation >= 5 && image->w != image->h))
		return 0;
	return err_set(err, ERR_INVALID,
		       "EXIF turns its image (orientation %u) differently from the mask (%u), so "
		       "nothing says whether they fit: turn the images upright first, or set "
		       "`orientation: ignore` if the mask was drawn on what is stored",
		       image->orientation, mask->orientation);
}

/* Each mask belongs to an image of its sample: the first one of the same size, or else the
 * first. */
static int check_masks(const struct job *j, struct err *err)
{
	const struct shard_sample *s = j->sample;
	struct image_info images[16], mask;
	size_t n = 0;

	for (size_t i = 0; i < s->n_fields && n < ARRAY_LEN(images) && json_array_size(j->p->masks);
	     i++) {
		const struct shard_field *f = &s->fields[i];

		if (!is_image(j->p, s, f->name) || is_listed(j->p->masks, f->name))
			continue;
		if (codec_probe(f->data, f->n, &j->p->codec, &images[n++], err) < 0)
			return name_field(err, f->name);
	}
	for (size_t i = 0; i < s->n_fields && n > 0; i++) {
		const struct shard_field *f = &s->fields[i];
		size_t k = 0;

		if (!is_listed(j->p->masks, f->name))
			continue;
		if (codec_probe(f->data, f->n, &j->p->codec, &mask, err) < 0)
			return name_field(err, f->name);
		while (k + 1 < n && (images[k].w != mask.w || images[k].h != mask.h))
			k++;
		if (images[k].w != mask.w || images[k].h != mask.h)
			k = 0;
		if (check_fit(&images[k], &mask, err) < 0)
			return name_field(err, f->name);
	}
	return 0;
}

static int augment_fields(struct job *j, struct err *err)
{
	int images = 0;

	if (check_masks(j, err) < 0)
		return -1;
	for (size_t i = 0; i < j->sample->n_fields; i++) {
		const char *name = j->sample->fields[i].name;

		if (!is_image(j->p, j->sample, name) && !is_listed(j->p->masks, name))
			continue;
		if (augment_field(j, i, err) < 0)
			return -1;
		images++;
	}
	if (images == 0)
		return err_set(err, ERR_INVALID,
			       json_array_size(j->p->image)
				       ? "it has none of the fields that `image` names"
				       : "it has no image: no field ends in jpg, jpeg, png or npy "
					 "(`image` names others)");
	for (uint32_t i = 0; i < j->n; i++) {
		if (j->records)
			add_record(j->p, &j->made[i], j->first + i, j->records[i]);
		if (check_names(&j->made[i], err) < 0)
			return -1;
	}
	return images;
}

int sample_augment(const struct plan *p, const struct shard_sample *s, uint32_t first, uint32_t n,
		   struct workspace *ws, struct augmented *ret, struct err *err)
{
	struct job j = { .p = p,
			 .sample = s,
			 .ws = ws,
			 .key = random_key_of(p->seed, s->key),
			 .first = first,
			 .n = n,
			 .made = ret,
			 .records = p->record ? xcalloc(n, sizeof(json_t *)) : NULL };
	int images;

	assert(n > 0 && first + n <= p->copies);
	for (uint32_t i = 0; i < n; i++) {
		made_init(&ret[i], p, s, first + i);
		if (j.records)
			j.records[i] = json_object();
	}
	images = augment_fields(&j, err);
	for (uint32_t i = 0; i < n; i++) {
		if (j.records)
			json_decref(j.records[i]);
		if (images < 0)
			augmented_deinit(&ret[i]);
	}
	free(j.records);
	return images;
}

void sample_keep(const struct plan *p, const struct shard_sample *s, uint32_t copy,
		 struct augmented *ret)
{
	made_init(ret, p, s, copy);
}
