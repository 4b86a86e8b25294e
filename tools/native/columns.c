// SPDX-License-Identifier: GPL-2.0
/* Column buffers and the stream they are written to; see columns.h. */
#include <stdlib.h>
#include <string.h>

#include "columns.h"

/**
 * cil_kind_width() - bytes of one value in its column
 * @kind: kind of the column
 *
 * Return: the width, 0 for CIL_ARRAY, whose width only the trace knows.
 */
size_t cil_kind_width(enum cil_kind kind)
{
	static const size_t width[] = {
		[CIL_U8] = 1, [CIL_U16] = 2, [CIL_U32] = 4, [CIL_U64] = 8,
		[CIL_S32] = 4, [CIL_S64] = 8, [CIL_ARRAY] = 0,
		[CIL_TEXT] = 4, [CIL_BYTES] = 4, [CIL_FUNCTION] = 4,
	};

	return width[kind];
}

/**
 * cil_chunk_init() - allocate the buffers
 * @chunk: its columns, kinds and widths are set already
 *
 * Return: 0, or -1 if there is no memory.
 */
int cil_chunk_init(struct cil_chunk *chunk)
{
	size_t i;

	for (i = 0; i < chunk->columns; i++) {
		struct cil_buffer *b = &chunk->buffers[i];

		b->values = calloc(CIL_CHUNK_ROWS, b->width);
		if (!b->values)
			return -1;
	}
	return 0;
}

/**
 * cil_chunk_free() - give the buffers back
 * @chunk: the chunk, initialised or zero
 */
void cil_chunk_free(struct cil_chunk *chunk)
{
	size_t i;

	for (i = 0; i < chunk->columns; i++) {
		free(chunk->buffers[i].values);
		free(chunk->buffers[i].content);
	}
	memset(chunk, 0, sizeof(*chunk));
}

static int make_room(struct cil_buffer *b, size_t size)
{
	size_t room = b->content_room ? b->content_room : 4096;
	u8 *content;

	while (room - b->content_size < size)
		room *= 2;
	if (room == b->content_room)
		return 0;
	content = realloc(b->content, room);
	if (!content)
		return -1;
	b->content = content;
	b->content_room = room;
	return 0;
}

/**
 * cil_append_content() - add to the bytes of the row being filled
 * @chunk: the table
 * @column: its column
 * @data: what comes next
 * @size: number of bytes
 *
 * The caller puts the whole length of the bytes as the column's number.
 *
 * Return: 0, or -1 if there is no memory.
 */
int cil_append_content(struct cil_chunk *chunk, size_t column,
		       const void *data, size_t size)
{
	struct cil_buffer *b = &chunk->buffers[column];

	if (make_room(b, size))
		return -1;
	if (size)
		memcpy(b->content + b->content_size, data, size);
	b->content_size += size;
	chunk->full |= b->content_size >= CIL_CHUNK_CONTENT;
	return 0;
}

/**
 * cil_put_content() - set an array, a text or bytes of the row being filled
 * @chunk: the table
 * @column: its column
 * @data: contents; an array has exactly the width of its column
 * @size: number of bytes
 *
 * Return: 0, or -1 if there is no memory.
 */
int cil_put_content(struct cil_chunk *chunk, size_t column, const void *data,
		    size_t size)
{
	struct cil_buffer *b = &chunk->buffers[column];

	if (b->kind == CIL_ARRAY) {
		memcpy(b->values + chunk->rows * b->width, data, b->width);
		return 0;
	}
	if (cil_append_content(chunk, column, data, size))
		return -1;
	cil_put_number(chunk, column, size);
	return 0;
}

/**
 * cil_chunk_write() - write the rows and begin anew
 * @chunk: the table; nothing is written if it has no rows
 * @pending: bytes in its last column that are of the row being filled
 * @stream: where to
 *
 * Return: 0, or -1 if the stream is broken.
 */
int cil_chunk_write(struct cil_chunk *chunk, size_t pending, FILE *stream)
{
	struct cil_buffer *last = &chunk->buffers[chunk->columns - 1];
	struct cil_message message = {
		.kind = CIL_MESSAGE_CHUNK,
		.table = chunk->table,
		.rows = chunk->rows,
	};
	size_t i;

	if (!chunk->rows)
		return 0;
	last->content_size -= pending;
	for (i = 0; i < chunk->columns; i++)
		message.bytes += chunk->rows * chunk->buffers[i].width +
				 chunk->buffers[i].content_size;
	fwrite(&message, sizeof(message), 1, stream);
	for (i = 0; i < chunk->columns; i++) {
		struct cil_buffer *b = &chunk->buffers[i];

		fwrite(b->values, b->width, chunk->rows, stream);
		if (b->content_size)
			fwrite(b->content, 1, b->content_size, stream);
		if (b == last && pending)
			memmove(b->content, b->content + b->content_size, pending);
		b->content_size = b == last ? pending : 0;
	}
	chunk->rows = 0;
	chunk->full = false;
	return ferror(stream) ? -1 : 0;
}

/**
 * cil_message_write() - write a message that carries text
 * @stream: where to
 * @kind: kind of the message
 * @text: its payload
 *
 * Return: 0, or -1 if the stream is broken.
 */
int cil_message_write(FILE *stream, enum cil_message_kind kind,
		      const char *text)
{
	struct cil_message message = {
		.kind = kind,
		.bytes = strlen(text),
	};

	fwrite(&message, sizeof(message), 1, stream);
	fwrite(text, 1, message.bytes, stream);
	fflush(stream);
	return ferror(stream) ? -1 : 0;
}
