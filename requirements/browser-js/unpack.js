// Unpacks the Chromium of the package, and the libraries and fonts that it needs, into the folder that TMPDIR names.
import chromium, { inflate } from "@sparticuz/chromium";
import { fileURLToPath } from "node:url";

await inflate(fileURLToPath(new URL("../bin/al2023.tar.br", import.meta.resolve("@sparticuz/chromium"))));
console.log(`unpacked ${await chromium.executablePath()}`);
