/* kforecast 1
task = "transpose"
options = ["-fopenmp"]
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
[tune]
THREADS = [1, 2, 4]
TILE = [32, 16, 64, 128]
*/
#include <stddef.h>
#ifdef __AVX2__
#include <immintrin.h>

/* Eight rows in, eight columns out, all in registers. */
static void transpose_8x8(const float* x, size_t from, float* y, size_t to) {
    __m256 r[8], s[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_ps(x + i * from);
    }
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * to, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * to, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#endif

static void transpose_tile(const float* x, size_t from, float* y, size_t to, int rows, int cols) {
    int r = 0;
#ifdef __AVX2__
    for (; r + 8 <= rows; r += 8) {
        int c = 0;
        for (; c + 8 <= cols; c += 8) {
            transpose_8x8(x + r * from + c, from, y + c * to + r, to);
        }
        for (; c < cols; c++) {
            for (int i = r; i < r + 8; i++) {
                y[c * to + i] = x[i * from + c];
            }
        }
    }
#endif
    for (; r < rows; r++) {
        for (int c = 0; c < cols; c++) {
            y[c * to + r] = x[r * from + c];
        }
    }
}

void transpose(const float* restrict x, float* restrict y, int R, int C) {
    /* Tiles run along y's rows: whole output lines are written before the next ones are opened. */
    int row_tiles = (R + TILE - 1) / TILE, col_tiles = (C + TILE - 1) / TILE;
#pragma omp parallel for num_threads(THREADS) collapse(2) schedule(static) if ((size_t)R * C > 65536)
    for (int j = 0; j < col_tiles; j++) {
        for (int i = 0; i < row_tiles; i++) {
            int r = i * TILE, c = j * TILE;
            int rows = R - r < TILE ? R - r : TILE, cols = C - c < TILE ? C - c : TILE;
            transpose_tile(x + (size_t)r * C + c, C, y + (size_t)c * R + r, R, rows, cols);
        }
    }
}
