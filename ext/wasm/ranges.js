// ranges.js: a file that is read by ranges, as a cache of blocks with read-ahead. It knows nothing of HTTP.

/**
 * Reads of SQLite are one page each. They are answered from blocks, which are fetched in runs: all blocks that a read
 * lacks are one fetch, and a fetch that goes on where an earlier one ended is twice as long as that one, up to `ahead`, if
 * most of what that one brought was read. Several sequences of reads may interleave, for example those of two arrays. The cache drops the blocks that were not
 * used for the longest time when it has more than `capacity` bytes.
 */
export class Ranges {
  /**
   * @param {number} size bytes of the file
   * @param {(first: number, count: number) => Uint8Array} fetch returns exactly these bytes, or throws
   * @param {{ block?: number, capacity?: number, ahead?: number }} limits in bytes
   */
  constructor(size, fetch, { block = 65536, capacity = 64 << 20, ahead = 1 << 20 } = {}) {
    if (!(block >= 512)) throw new RangeError(`a block of ${block} bytes: 512 or more are needed`);
    this.size = size;
    this.fetch = fetch;
    this.block = block;
    this.most = Math.max(1, Math.floor(ahead / block)); // blocks of one fetch that nobody has asked for
    this.room = Math.max(2, Math.floor(capacity / block)); // blocks in the cache
    this.blocks = new Map(); // index -> { bytes, used: how many were read }, the least recently used first
    this.sequences = []; // { next, length }: where a sequence of fetches goes on, and how long the last one was
  }

  /** Puts bytes from the beginning of the file into the cache: whole blocks, or the whole file. */
  seed(bytes) {
    for (let index = 0; index * this.block < bytes.length; index++) {
      const end = Math.min((index + 1) * this.block, this.size);
      if (end <= bytes.length) this.keep(index, { bytes: bytes.slice(index * this.block, end), used: 0 });
    }
    this.sequences.unshift({ next: Math.ceil(bytes.length / this.block), length: 1 });
  }

  keep(index, block) {
    this.blocks.delete(index);
    this.blocks.set(index, block);
  }

  /** Copies bytes from `at` on into `to`. Returns their number, which is less than that of `to` only at the end of the file. */
  read(to, at) {
    const count = Math.max(0, Math.min(to.length, this.size - at));
    let done = 0;
    while (done < count) {
      const index = Math.floor((at + done) / this.block);
      let block = this.blocks.get(index);
      if (block) this.keep(index, block);
      else block = this.load(index, Math.ceil((at + count) / this.block));
      const from = at + done - index * this.block;
      const part = block.bytes.subarray(from, from + count - done);
      to.set(part, done);
      done += part.length;
      block.used += part.length;
    }
    return count;
  }

  /** Fetches block `index` and what follows: the blocks before `end` that are missing, and the blocks of the read-ahead. */
  load(index, end) {
    const last = Math.ceil(this.size / this.block);
    let sequence = this.sequences.find((s) => s.next === index);
    if (!sequence) sequence = { next: 0, length: 0 };
    const ahead = this.wasRead(sequence) ? Math.min(2 * sequence.length, this.most) : 1;
    const wanted = Math.min(Math.max(end - index, ahead), last - index, this.room);
    let length = 1;
    while (length < wanted && !this.blocks.has(index + length)) length++;
    const first = index * this.block;
    const bytes = this.fetch(first, Math.min(length * this.block, this.size - first));
    for (let i = 0; i < length; i++) this.keep(index + i, { bytes: bytes.slice(i * this.block, (i + 1) * this.block), used: 0 });
    const result = this.blocks.get(index);
    for (const old of this.blocks.keys()) {
      if (this.blocks.size <= this.room) break;
      this.blocks.delete(old);
    }
    sequence.next = index + length;
    sequence.length = length;
    this.sequences = [sequence, ...this.sequences.filter((s) => s !== sequence)].slice(0, 16);
    return result;
  }

  /** Whether at least half of what the last fetch of a sequence brought was read. */
  wasRead({ next, length }) {
    let used = 0;
    for (let index = next - length; index < next; index++) used += Math.min(this.block, this.blocks.get(index)?.used ?? 0);
    return 2 * used >= length * this.block;
  }

  /** Bytes in the cache. */
  get cached() {
    let sum = 0;
    for (const { bytes } of this.blocks.values()) sum += bytes.length;
    return sum;
  }
}
