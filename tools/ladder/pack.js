// SPDX-License-Identifier: BSD-2-Clause
// Large pages have their numbers and texts compressed (tools/ladder_pack.c): columns are expanded when the page is
// opened, texts and bytes in pieces when they are shown. RFC 1951 is read here, as the page loads nothing and waits for
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

	column(count, column) {
		let before = 0;
		for (let i = 0; i < count; i++) {
			const digits = this.next();
			before += digits % 2 ? -(digits + 1) / 2 : digits / 2;
			column[i] = before;
		}
		return column;
	}

	text() {
		const bytes = this.next() - 1;
		this.at += Math.max(bytes, 0);
		return bytes < 0 ? null : new TextDecoder().decode(this.bytes.subarray(this.at - bytes, this.at));
	}
}

// Columns by name, as DATA.pack says; what is not of 32 bits is a double.
function unpackColumns() {
	const numbers = new Numbers(unpack(DATA.pack.columns)), packet = {}, event = {};
	const wide = new Set(['sent', 'received', 'time', 'latency']);
	for (const name of DATA.pack.packet)
		packet[name] = numbers.column(DATA.pack.packets, new (wide.has(name) ? Float64Array : Int32Array)(DATA.pack.packets));
	for (const name of DATA.pack.event)
		event[name] = numbers.column(DATA.pack.events, new (wide.has(name) ? Float64Array : Int32Array)(DATA.pack.events));
	DATA.pack.columns = null;
	return [packet, event];
}

// Pieces of texts or bytes: the latest few stay expanded.
const pieces = new Map();

function piece(kind, index) {
	const key = kind + index;
	let found = pieces.get(key);
	if (!found) {
		found = { numbers: new Numbers(unpack(DATA.pack[kind][index])), texts: null };
		if (pieces.size > 60)
			pieces.delete(pieces.keys().next().value);
		pieces.set(key, found);
	}
	return found;
}

function pieceTexts(kind, index, count) {
	const found = piece(kind, index);
	if (!found.texts) {
		found.texts = [];
		for (let i = 0; i < count; i++)
			found.texts.push(found.numbers.text());
	}
	return found.texts;
}
