/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Column buffers and the stream they are written to.
 *
 * The stream is a sequence of messages, each a struct cil_message and its
 * payload, in the byte order of this machine. It ends with
 * CIL_MESSAGE_END or CIL_MESSAGE_ERROR; a stream that just stops belongs to a
 * reader that died. A chunk's payload is its columns one after the other:
 * numbers as an array, texts and bytes as an array of u32 lengths followed by
 * the contents. Where a chunk is full, those of all tables are written in the
 * order of the schema. So each such round holds all rows up to a moment. A
 * CIL_MESSAGE_PLACE follows it, with the place in the file as a text.
 */
#ifndef CIL_COLUMNS_H
#define CIL_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "../../governors/common/types.h"

#define CIL_COLUMNS_MAX		32
#define CIL_CHUNK_ROWS		65536
#define CIL_CHUNK_CONTENT	(4u << 20)

enum cil_message_kind {
	CIL_MESSAGE_SCHEMA = 1,
	CIL_MESSAGE_CHUNK = 2,
	CIL_MESSAGE_END = 3,
	CIL_MESSAGE_ERROR = 4,
	CIL_MESSAGE_PLACE = 5,
};

/**
 * struct cil_message - header of one message of the stream
 * @kind: enum cil_message_kind
 * @table: number of the table in the order of the schema; chunks only
 * @rows: number of rows; chunks only
 * @bytes: length of the payload
 */
struct cil_message {
	u32 kind;
	u32 table;
	u64 rows;
	u64 bytes;
};

enum cil_kind {
	CIL_U8,
	CIL_U16,
	CIL_U32,
	CIL_U64,
	CIL_S32,
	CIL_S64,
	CIL_ARRAY,	/* a fixed number of u16, u32 or s64 */
	CIL_TEXT,
	CIL_BYTES,
	CIL_FUNCTION,	/* an address of the kernel, as a text: its name */
};

/**
 * struct cil_buffer - values of one column
 * @kind: what they are
 * @width: bytes of one value, for texts the bytes of its length
 * @values: CIL_CHUNK_ROWS values of @width bytes
 * @content: texts and bytes one after the other
 * @content_size: bytes used in @content
 * @content_room: bytes allocated for @content
 */
struct cil_buffer {
	enum cil_kind kind;
	size_t width;
	u8 *values;
	u8 *content;
	size_t content_size;
	size_t content_room;
};

/**
 * struct cil_chunk - rows of one table that wait to be written
 * @table: number of the table
 * @rows: rows complete so far
 * @columns: number of columns
 * @full: no more texts and bytes should be added
 * @buffers: the columns
 */
struct cil_chunk {
	u32 table;
	size_t rows;
	size_t columns;
	bool full;
	struct cil_buffer buffers[CIL_COLUMNS_MAX];
};

/**
 * cil_store() - store a number of any width
 * @to: where to, aligned
 * @width: 1, 2, 4 or 8 bytes
 * @value: the number; the bits that do not fit are dropped
 */
static inline void cil_store(void *to, size_t width, u64 value)
{
	switch (width) {
	case 1:
		*(u8 *)to = value;
		break;
	case 2:
		*(u16 *)to = value;
		break;
	case 4:
		*(u32 *)to = value;
		break;
	default:
		*(u64 *)to = value;
		break;
	}
}

/**
 * cil_put_number() - set one number of the row being filled
 * @chunk: the table
 * @column: its column
 * @value: the number
 */
static inline void cil_put_number(struct cil_chunk *chunk, size_t column,
				  u64 value)
{
	struct cil_buffer *b = &chunk->buffers[column];

	cil_store(b->values + chunk->rows * b->width, b->width, value);
}

/**
 * cil_chunk_full() - must the chunk be written before the next row?
 * @chunk: the table
 */
static inline bool cil_chunk_full(const struct cil_chunk *chunk)
{
	return chunk->rows == CIL_CHUNK_ROWS || chunk->full;
}

size_t cil_kind_width(enum cil_kind kind);
int cil_chunk_init(struct cil_chunk *chunk);
void cil_chunk_free(struct cil_chunk *chunk);
int cil_append_content(struct cil_chunk *chunk, size_t column,
		       const void *data, size_t size);
int cil_put_content(struct cil_chunk *chunk, size_t column, const void *data,
		    size_t size);
int cil_chunk_write(struct cil_chunk *chunk, size_t pending, FILE *stream);
int cil_message_write(FILE *stream, enum cil_message_kind kind,
		      const char *text);

#endif /* CIL_COLUMNS_H */
