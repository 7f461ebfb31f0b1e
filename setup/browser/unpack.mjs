// SPDX-License-Identifier: Apache-2.0
// Unpacks the Chromium that @sparticuz/chromium carries, and says where it is.
import chromium from '@sparticuz/chromium';

console.log(await chromium.executablePath());
