/* Prints the class of each grey image on the command line: binary PGM files (P5) of 8 bits.
   recogniser.h is written by "bowsaw export recogniser/ -o recogniser.h". */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "recogniser.h"

static bowsaw_scratch scratch; /* all memory that the header needs */

/* The next number of the file's head; a comment reaches from # to the end of its line. */
static int read_number(FILE *file)
{
    int c = getc(file), number = 0;
    for (; isspace(c) || c == '#'; c = getc(file))
        while (c == '#' && (c = getc(file)) != '\n' && c != EOF)
            c = '#';
    for (; isdigit(c) && number < 100000; c = getc(file))
        number = 10 * number + c - '0';
    return number;
}

static int32_t recognise(FILE *file, float *scores)
{
    int width, height, white;
    uint8_t *pixels;
    int32_t found = BOWSAW_BAD_IMAGE;
    if (getc(file) != 'P' || getc(file) != '5')
        return found;
    width = read_number(file);
    height = read_number(file);
    white = read_number(file);
    if (width < 1 || height < 1 || white != 255)
        return found;
    pixels = malloc((size_t)width * (size_t)height);
    if (pixels != NULL && fread(pixels, (size_t)width, (size_t)height, file) == (size_t)height)
        found = bowsaw_recognise(pixels, width, height, (size_t)width, &scratch, scores);
    free(pixels);
    return found;
}

int main(int argc, char **argv)
{
    float scores[BOWSAW_N_CLASSES];
    int i, failed = 0;
    for (i = 1; i < argc; ++i) {
        FILE *file = fopen(argv[i], "rb");
        const int32_t found = file == NULL ? BOWSAW_BAD_IMAGE : recognise(file, scores);
        if (found < 0) {
            printf("%s: not usable (%d)\n", argv[i], (int)found);
            failed = 1;
        } else
            printf("%s: %s (%.6f)\n", argv[i], bowsaw_classes[found], (double)scores[found]);
        if (file != NULL)
            fclose(file);
    }
    return failed;
}
