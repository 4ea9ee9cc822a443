// SPDX-License-Identifier: BSD-2-Clause
// Large pages have their numbers and texts compressed (tools/ladder_pack.c): columns are expanded when they are asked
// for, texts and bytes in pieces when they are shown. RFC 1951 is read here, as the page loads nothing and waits for
// nothing.
'use strict';

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
	8193, 12289, 16385, 24577];
const DISTANCE_BITS = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// A table by the next bits of the input: symbol << 4 | its length.
function huffman(lengths) {
	const most = Math.max(1, ...lengths), table = new Uint16Array(1 << most), next = new Array(17).fill(0), count = new Array(17).fill(0);
	for (const length of lengths)
		count[length]++;
	count[0] = 0;
	for (let bits = 1; bits <= most; bits++)
		next[bits + 1] = next[bits] + count[bits] << 1;
	lengths.forEach((length, symbol) => {
		if (!length)
			return;
		let code = next[length]++, reversed = 0;
		for (let i = 0; i < length; i++, code >>= 1)
			reversed = reversed << 1 | code & 1;
		for (let at = reversed; at < table.length; at += 1 << length)
			table[at] = symbol << 4 | length;
	});
	return { table, mask: (1 << most) - 1 };
}

const FIXED = [huffman([...new Array(144).fill(8), ...new Array(112).fill(9), ...new Array(24).fill(7), ...new Array(8).fill(8)]),
	huffman(new Array(30).fill(5))];

// Of compressed bytes @input, which become @bytes.
function expand(input, bytes) {
	const out = new Uint8Array(bytes);
	let at = 0, have = 0, held = 0, to = 0, last = false;
	const take = count => {
		while (have < count) {
			held |= input[at++] << have;
			have += 8;
		}
		const value = held & (1 << count) - 1;
		held >>>= count;
		have -= count;
		return value;
	};
	const symbol = code => {
		while (have < 15 && at < input.length) {
			held |= input[at++] << have;
			have += 8;
		}
		const found = code.table[held & code.mask];
		held >>>= found & 15;
		have -= found & 15;
		return found >> 4;
	};
	const dynamic = () => {
		const literals = take(5) + 257, distances = take(5) + 1, codes = take(4) + 4, lengths = new Array(19).fill(0), all = [];
		for (let i = 0; i < codes; i++)
			lengths[CODE_ORDER[i]] = take(3);
		const code = huffman(lengths);
		while (all.length < literals + distances) {
			const what = symbol(code);
			if (what < 16)
				all.push(what);
			else {
				const value = what === 16 ? all[all.length - 1] : 0;
				for (let times = what === 16 ? 3 + take(2) : what === 17 ? 3 + take(3) : 11 + take(7); times; times--)
					all.push(value);
			}
		}
		return [huffman(all.slice(0, literals)), huffman(all.slice(literals))];
	};
	while (!last) {
		last = take(1) === 1;
		const kind = take(2);
		if (kind === 0) {
			at -= have >> 3;
			have = held = 0;
			const count = input[at] | input[at + 1] << 8;
			out.set(input.subarray(at + 4, at + 4 + count), to);
			at += 4 + count;
			to += count;
			continue;
		}
		const [literal, distance] = kind === 1 ? FIXED : dynamic();
		for (let what = symbol(literal); what !== 256; what = symbol(literal)) {
			if (what < 256) {
				out[to++] = what;
				continue;
			}
			const length = LENGTHS[what - 257] + take(LENGTH_BITS[what - 257]), far = symbol(distance);
			let from = to - DISTANCES[far] - take(DISTANCE_BITS[far]);
			if (length > 16 && from + length <= to) {
				out.copyWithin(to, from, from + length);
				to += length;
				continue;
			}
			for (const end = to + length; to < end;)
				out[to++] = out[from++];
		}
	}
	return out;
}

function unpack([bytes, text]) {
	if (Uint8Array.fromBase64)
		return expand(Uint8Array.fromBase64(text), bytes);
	const binary = atob(text), input = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++)
		input[i] = binary.charCodeAt(i);
	return expand(input, bytes);
}

class Numbers {
	constructor(bytes) {
		this.bytes = bytes;
		this.at = 0;
	}

	next() {
		let byte = this.bytes[this.at++];
		if (byte < 128)
			return byte;
		let value = byte & 127, scale = 128;
		do {
			byte = this.bytes[this.at++];
			value += (byte & 127) * scale;
			scale *= 128;
		} while (byte & 128);
		return value;
	}

	// Each number is the difference from the one before.
	column(count, column) {
		const bytes = this.bytes;
		let at = this.at, before = 0;
		for (let i = 0; i < count; i++) {
			let digits = bytes[at++];
			if (digits > 127) {
				digits &= 127;
				for (let scale = 128, more = 128; more; scale *= 128) {
					const byte = bytes[at++];
					more = byte & 128;
					digits += (byte & 127) * scale;
				}
			}
			before += digits % 2 ? -(digits + 1) / 2 : digits / 2;
			column[i] = before;
		}
		this.at = at;
		return column;
	}

	skipText() {
		const bytes = this.next() - 1;
		this.at += Math.max(bytes, 0);
	}

	text() {
		const bytes = this.next() - 1;
		this.at += Math.max(bytes, 0);
		return bytes < 0 ? null : DECODER.decode(this.bytes.subarray(this.at - bytes, this.at));
	}
}
const DECODER = new TextDecoder();

const WIDE = new Set(['sent', 'received', 'time', 'latency']);	// not of 32 bits

// A number: of all rows. Else bytes, one for each row, or differences.
function unpackColumn(name, packed, count) {
	if (packed.bytes)
		return unpack(packed.bytes);
	const column = new (WIDE.has(name) ? Float64Array : Int32Array)(count);
	return typeof packed === 'number' ? column.fill(packed) : new Numbers(unpack(packed)).column(count, column);
}

// Columns by name. Each is expanded when it is asked for.
function unpackColumns(packed, count) {
	const columns = {};
	for (const name of Object.keys(packed))
		Object.defineProperty(columns, name, { configurable: true, get() {
			const value = unpackColumn(name, packed[name], count);
			packed[name] = null;
			Object.defineProperty(columns, name, { value });
			return value;
		} });
	return columns;
}

// Steps in three lists: packets that begin, that end, events; then the times of all.
function unpackMoments({ moments, moment, packets }) {
	const numbers = new Numbers(unpack(moment)), before = [-1, -1, packets - 1];
	const item = new Uint32Array(moments), end = new Uint8Array(moments);
	for (let i = 0; i < moments; i++) {
		const digits = numbers.next(), list = digits & 3, step = digits >>> 2;
		item[i] = before[list] += step >>> 1 ^ -(step & 1);
		end[i] = list & 1;
	}
	return { length: moments, time: numbers.column(moments, new Float64Array(moments)), item, end };
}

// Pieces of texts or bytes: the latest few stay expanded.
const pieces = new Map();

function piece(kind, index) {
	const key = kind + index;
	let found = pieces.get(key);
	if (!found) {
		found = { numbers: new Numbers(unpack(DATA.pack[kind][index])), starts: null };
		if (pieces.size > 60)
			pieces.delete(pieces.keys().next().value);
		pieces.set(key, found);
	}
	return found;
}

// The text @at of a piece; where all begin is looked up once.
function pieceText(kind, index, at) {
	const found = piece(kind, index), numbers = found.numbers;
	if (!found.starts) {
		found.starts = [];
		while (numbers.at < numbers.bytes.length) {
			found.starts.push(numbers.at);
			numbers.skipText();
		}
	}
	numbers.at = found.starts[at];
	return numbers.text();
}
